"""`pytest checks --hosts=...`: judged from outside; the host is this one, and `rig` a stand-in with a snapshot."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
import testinfra

from checks import LEVELS, evaluate
from checks.catalogue import checks_of
from checks.needs import RDMA_EXPECTED
from checks.remote import NoSnapshot, take_snapshot
from checks.running import BUDGET_S
from rig.emit import to_json
from rig.host import Host
from rig.machine import UNLIMITED
from rig.snapshot import Snapshot
from tests.checks.snapshots import h100, no_gpu
from tests.checks.twin import changed

CHECKOUT = Path(__file__).resolve().parents[2]
ONE = "memlock_is_unlimited"
LOW = 65536


class Outside:
    """`pytest checks` on this host, with a program `rig` that answers as told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.bin.mkdir()
        for name in ("sh", "timeout", "mktemp", "rm", "cat", "tail", "python3"):
            (self.bin / name).symlink_to(f"/usr/bin/{name}" if os.path.exists(f"/usr/bin/{name}") else f"/bin/{name}")

    def rig(self, script: str) -> None:
        path = self.bin / "rig"
        path.write_text(f'#!/bin/sh\necho "$RIG_EXPECT $*" >>"{self.folder}/calls"\n{script}\n')
        path.chmod(0o755)

    def sends(self, now: Snapshot, code: int = 0) -> None:
        """A rig that saves this snapshot, and prints what must not come between."""
        (self.folder / "sent").write_text(to_json(now))
        self.rig(f'echo "not a snapshot"; cp() {{ cat "$1" >"$2"; }}; cp "{self.folder}/sent" "$5"; exit {code}')

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def pytest(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "pytest", "checks", "--hosts=local://", "-p", "no:cacheprovider", *words]
        environ = {"PATH": str(self.bin), "HOME": str(self.folder), "RIG_EXPECT": "gpus=1", "COLUMNS": "200"}
        return subprocess.run(command, cwd=CHECKOUT, env=environ, capture_output=True, text=True, timeout=60)

    def outcomes(self, *words: str) -> dict[str, dict[str, str]]:
        """Check -> the properties that a JUnit report has of it."""
        report = self.folder / "junit.xml"
        self.pytest(f"--junit-xml={report}", *words)
        told: dict[str, dict[str, str]] = {}
        for case in xml.parse(report).iter("testcase"):
            found = {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
            found["junit"] = next((kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None), "")
            told[found.get("check", "")] = found
        return told


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path)


def limited(limit: int | None) -> Snapshot:
    # CAP_IPC_LOCK would lift the limit, and where nobody counts on RDMA a small one is a warning.
    now = changed(h100(), machine__surroundings__capabilities=(), expected__hcas=8)
    return changed(now, machine__limits__memlock_bytes=limit)  # type: ignore[no-any-return]


def test_a_failed_check_is_a_failed_item_with_its_remedy(outside: Outside) -> None:
    outside.sends(limited(LOW), 1)
    done = outside.pytest("-k", ONE)
    assert done.returncode == 1
    assert f"test_check[{ONE}-local]" in done.stdout
    for line in (f"{ONE}: memlock is 65536 bytes", "    got  65536", "    fix  docker run --ulimit memlock=-1"):
        assert line in done.stdout
    assert "0 pass, 1 fail, 0 unknown, 0 warn, 0 skip" in done.stdout


def test_a_check_that_holds_passes_and_the_host_looked_once(outside: Outside) -> None:
    outside.sends(limited(UNLIMITED))
    outside.pytest("--level", "boot")
    calls = outside.calls()
    assert len(calls) == 1
    assert calls[0].startswith("gpus=1 check --level boot --save ")
    assert outside.pytest("-k", ONE).returncode == 0
    assert not list(Path("/tmp").glob("rig-*/snapshot"))


def test_what_does_not_apply_is_skipped_in_the_words_of_its_need_unless_it_must_be_there(outside: Outside) -> None:
    outside.sends(no_gpu())
    assert outside.outcomes("-k", ONE)[ONE] | {"host": ""} == {
        "host": "",
        "check": ONE,
        "outcome": "skip",
        "why": RDMA_EXPECTED.without,
        "junit": "skipped",
    }
    assert outside.outcomes("-k", ONE, "--no-skip", "rdma,gpu")[ONE]["junit"] == "failure"


def test_unknown_is_counted_apart_and_fails_where_strict(outside: Outside) -> None:
    outside.sends(limited(None), 2)
    done = outside.pytest("-k", ONE)
    assert done.returncode == 1  # where `rig check` ends with 2: it might be a failure
    assert f"{ONE}: could not be judged: the memlock limit: not known" in done.stdout
    assert "0 pass, 0 fail, 1 unknown, 0 warn, 0 skip" in done.stdout
    assert f"UNKNOWN {ONE}: the memlock limit: not known" in done.stdout


def test_an_unknown_that_would_be_a_warning_is_skipped_unless_strict(outside: Outside) -> None:
    now = limited(UNLIMITED)._replace(host=Host())
    quick = checks_of("quick")
    mild = next(one.id for one in quick if one.severity == "warn" and evaluate(one, now).outcome == "unknown")
    outside.sends(now)
    words = ("-k", f"{mild} or {ONE}")
    told = outside.outcomes(*words)
    assert (told[mild]["outcome"], told[mild]["junit"]) == ("unknown", "skipped")
    assert told[ONE]["outcome"] == "pass"
    done = outside.pytest(*words)
    assert done.returncode == 0 and "1 pass, 0 fail, 1 unknown, 0 warn, 0 skip" in done.stdout
    assert outside.pytest(*words, "--strict").returncode == 1


def test_a_host_of_which_nothing_was_judged_did_not_pass(outside: Outside) -> None:
    outside.sends(no_gpu(), 2)
    done = outside.pytest("-k", ONE)
    assert done.returncode == 1 and "1 skip: nothing was judged" in done.stdout


def test_a_host_has_the_time_of_its_level(outside: Outside) -> None:
    outside.sends(limited(UNLIMITED))
    (outside.bin / "timeout").unlink()
    (outside.bin / "timeout").write_text(f'#!/bin/sh\necho "$3" >>"{outside.folder}/seconds"\nshift 3; exec "$@"\n')
    (outside.bin / "timeout").chmod(0o755)
    for level in LEVELS:
        assert outside.pytest("-k", ONE, "--level", level).returncode == 0
    seconds = [float(line) for line in (outside.folder / "seconds").read_text().splitlines()]
    assert all(one > (BUDGET_S[level] or 0) for level, one in zip(LEVELS, seconds, strict=True))
    outside.pytest("-k", ONE, "--check-timeout", "7")
    assert (outside.folder / "seconds").read_text().endswith("\n7\n")


def test_items_can_be_chosen_by_family_and_by_level(outside: Outside) -> None:
    outside.sends(limited(UNLIMITED))
    assert ONE in outside.outcomes("-m", "limits and boot")
    assert ONE not in outside.outcomes("-m", "limits and not boot")


def test_the_expectation_goes_to_the_host(outside: Outside) -> None:
    outside.sends(limited(UNLIMITED))
    outside.pytest("-k", ONE, "--expect", "gpus=8,hcas=9")
    assert outside.calls()[0].startswith("gpus=8,hcas=9 check ")


def test_a_host_without_rig_is_one_error(outside: Outside) -> None:
    done = outside.pytest()
    assert done.returncode == 1
    assert " 1 error" in done.stdout and "passed" not in done.stdout
    assert "local: no command rig on its PATH" in done.stdout


def test_a_host_that_cannot_be_reached_is_one_error_and_is_tried_once(outside: Outside) -> None:
    client = outside.bin / "ssh"
    client.write_text(
        f'#!/bin/sh\necho "$*" | head -n 1 >>"{outside.folder}/tried"\necho "ssh: no way" >&2\nexit 255\n'
    )
    client.chmod(0o755)
    (outside.bin / "head").symlink_to("/usr/bin/head")
    done = outside.pytest("--hosts=ssh://nohost.invalid")
    assert done.returncode == 1 and " 1 error" in done.stdout and "Traceback" not in done.stdout
    assert "ssh://nohost.invalid: it cannot be reached: ssh: no way\n" in done.stdout
    assert "remote.py" not in done.stdout and f"{len(checks_of('quick')) - 1} skipped" in done.stdout
    assert len((outside.folder / "tried").read_text().splitlines()) == 1


@pytest.mark.parametrize("hosts", ["bogus://x", "", "local://,"])
def test_hosts_that_cannot_be_are_one_line(outside: Outside, hosts: str) -> None:
    done = outside.pytest(f"--hosts={hosts}")
    assert done.returncode == 4 and done.stdout == ""
    assert done.stderr.startswith(f"ERROR: --hosts={hosts}: ") and len(done.stderr.split("\n")) == 3
    assert "hosts are such as docker://NAME" in done.stderr


def test_what_a_host_sends_cannot_speak_to_the_terminal(outside: Outside) -> None:
    bad = Snapshot(limited(None).machine)._replace(version=7)
    (outside.folder / "sent").write_text(to_json(bad).replace('"version": 7', '"version": "\\u001b[31m"'))
    outside.rig(f'cat "{outside.folder}/sent" >"$5"')
    done = outside.pytest("-k", ONE)
    assert done.returncode == 1 and "version '\\x1b[31m'" in done.stdout and "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("rig", "says"),
    [
        ("exit 64", "rig check gave no snapshot (exit code 64): nothing was said"),
        ("echo 'cannot look' >&2; exit 2", "rig check gave no snapshot (exit code 2): cannot look"),
        ('echo nonsense >"$5"', "its snapshot: no JSON"),
        ('echo {} >"$5"', "its snapshot: not a snapshot"),
        ("exec /bin/sleep 60", "rig check did not end within 1 s"),
    ],
)
def test_what_cannot_be_judged_is_said(outside: Outside, monkeypatch: pytest.MonkeyPatch, rig: str, says: str) -> None:
    outside.rig(rig)
    monkeypatch.setenv("PATH", str(outside.bin))
    with pytest.raises(NoSnapshot, match=re.escape(says)):
        take_snapshot(testinfra.get_host("local://"), "quick", None, 1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--expect", "gpu=8"), "--expect: gpu=8: must be words such as gpus=8"),
        (("--no-skip", "gpus,cards"), "--no-skip: no check needs"),
        (("--level", "slow"), "invalid choice"),
    ],
)
def test_options_that_cannot_be_are_refused(outside: Outside, words: tuple[str, ...], says: str) -> None:
    done = outside.pytest(*words)
    assert done.returncode == 4
    assert says in done.stderr

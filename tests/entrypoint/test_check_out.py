"""Where the results of `rig check` go, and what is left where they cannot go there."""

import json
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from checks.running import Selection
from entrypoint import check, check_out
from entrypoint.say import Voice
from rig.emit import to_json
from rig.snapshot import Snapshot
from tests.checks.snapshots import h100
from tests.checks.twin import changed
from tests.entrypoint.test_check_run import NOW, always

RIG = Path(__file__).parents[2] / "entrypoint" / "rig"
LOW = "--only", "memlock_is_unlimited"
FULL = "rig check: standard output: No space left on device\n"
CLOSED = "rig check: standard output: it is closed\n"


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this host's environment, and no folder but the test's own."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("RIG_STATE", str(tmp_path / "state"))


def node(folder: Path, *, good: bool) -> str:
    """A snapshot of which the check passes, or fails."""
    now: Snapshot = h100()
    if not good:
        limits = {"machine__limits__memlock_bytes": 65536, "machine__surroundings__capabilities": ()}
        now = changed(now, expected__hcas=8, **limits)
    path = folder / f"{good}.json"
    path.write_text(to_json(now))
    return str(path)


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may have a byte: writing fails, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def command(*words: str, ending: str = "", **environ: str) -> "subprocess.CompletedProcess[str]":
    """The real command; `ending` is what a shell does with its streams."""
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" check "$@" {ending}', str(RIG), *words],
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(("good", "code"), [(True, 3), (False, 1)])
def test_a_full_disk_leaves_no_older_verdict_and_a_failure_is_still_one(
    good: bool, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: tmp_path / name for name in ("json", "junit", "save")}
    words = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    assert check.run(["--from", node(tmp_path, good=True), *LOW, *words]) == 0
    assert json.loads(files["json"].read_text())["exit_code"] == 0
    asked = ["--from", node(tmp_path, good=good), *LOW, *words]
    capsys.readouterr()
    with full_disk():
        assert check.run(asked) == code
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1 and told.count("the older file was removed") == 3
    assert not any(path.exists() for path in files.values())


def test_no_older_checks_json_survives_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "select", lambda *asked: Selection("quick", (always("this_is_so"),), ()))
    monkeypatch.setattr(check, "take", lambda *asked: NOW)
    monkeypatch.setattr(check, "_end_children_with_us", lambda: None)
    warned: list[str] = []
    monkeypatch.setattr(Voice, "warning", lambda self, text: warned.append(text))
    assert check.run([]) == 0
    kept = tmp_path / "state" / "checks.json"
    assert json.loads(kept.read_text())["exit_code"] == 0 and warned == []
    with full_disk():
        assert check.run([]) == 0  # its report came through
    assert warned == [f"{kept} was not written: File too large; the older file was removed"]
    assert [name for name in os.listdir(kept.parent) if name.startswith("checks.json")] == []


def test_what_cannot_be_removed_is_emptied_or_said_to_be_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "old"
    old.write_text("pass")

    def refuse(*words: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "unlink", refuse)
    assert check_out.withdraw(str(old)) == "; the older file was emptied" and old.read_text() == ""
    monkeypatch.setattr(os, "truncate", refuse)
    assert "still there (Operation not permitted), and says nothing of this run" in check_out.withdraw(str(old))
    monkeypatch.undo()
    assert check_out.withdraw(str(tmp_path / "none")) == ""


@pytest.mark.parametrize(("good", "code"), [(True, 3), (False, 1)])
@pytest.mark.parametrize(("ending", "said"), [(">/dev/full", FULL), (">&-", CLOSED)])
def test_a_report_that_does_not_get_out_is_one_line(
    ending: str, said: str, good: bool, code: int, tmp_path: Path
) -> None:
    told = command("--from", node(tmp_path, good=good), *LOW, ending=ending)
    assert (told.returncode, told.stdout, told.stderr) == (code, "", said)


@pytest.mark.parametrize(("good", "code"), [(True, 3), (False, 1)])
def test_a_device_that_is_full_is_one_line(good: bool, code: int, tmp_path: Path) -> None:
    told = command("--from", node(tmp_path, good=good), *LOW, "--json", "/dev/full")
    assert (told.returncode, told.stderr) == (code, "rig check: /dev/full: No space left on device\n")


@pytest.mark.parametrize("words", [["--list"], ["--help"], ["--explain", "memlock_is_unlimited"]])
@pytest.mark.parametrize(("ending", "said"), [(">/dev/full", FULL), (">&-", CLOSED)])
def test_help_that_does_not_get_out_is_one_line_and_three(words: list[str], ending: str, said: str) -> None:
    told = command(*words, ending=ending)
    assert (told.returncode, told.stdout, told.stderr) == (3, "", said)


@pytest.mark.parametrize("ending", ["2>/dev/full", "2>&-"])
def test_without_anybody_who_listens_the_code_is_the_same(ending: str, tmp_path: Path) -> None:
    told = command("--level", "none", ending=ending)
    assert (told.returncode, told.stdout) == (3, "")
    told = command("--from", node(tmp_path, good=True), *LOW, "--json", str(tmp_path / "f"), ending=ending, RIG_NO="")
    assert told.returncode == 0 and json.loads((tmp_path / "f").read_text())["exit_code"] == 0


def test_unknown_names_are_warned_of_as_at_boot(tmp_path: Path) -> None:
    asked = ("--from", node(tmp_path, good=True), *LOW)
    told = command(*asked, RIG_EXPECTS="gpus=8")
    assert told.returncode == 0
    assert told.stderr == "rig: warning: RIG_EXPECTS is no setting of rig; RIG_EXPECT is\n"
    assert command(*asked, RIG_EXPECTS="gpus=8", RIG_QUIET="1").stderr == ""


def test_files_that_are_one_or_none_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "other").symlink_to("same")
    (tmp_path / "file").write_text("")
    same, other = str(tmp_path / "same"), str(tmp_path / "other")
    for words, said in {
        ("--json", same, "--junit", same): f"--json and --junit: both go to {same}",
        ("--html", same, "--save", other): f"--html and --save: both go to {other}",
        ("--save", "-", "--json"): "only one format fits on standard output",
        ("--save", "-", "--json", "/dev/stdout"): "only one format fits on standard output",
        ("--json", f"{tmp_path}/new/"): f"{tmp_path}/new/: is a folder, not a file",
        ("--json", f"{tmp_path}/new/."): f"{tmp_path}/new/.: is a folder, not a file",
        ("--save", f"{tmp_path}/file/"): f"{tmp_path}/file/: Not a directory",
        ("--json", f"{tmp_path}/loop"): f"{tmp_path}/loop: Too many levels of symbolic links",
        ("--json", "/dev/fd/999"): "/dev/fd/999: there is no such stream",
    }.items():
        assert check.run(["--from", node(tmp_path, good=True), *LOW, *words]) == 3
        told = capsys.readouterr()
        assert told.out == "" and len(told.err.splitlines()) == 1 and said in told.err, words
    assert not (tmp_path / "new").exists() and (tmp_path / "loop").is_symlink()


def test_a_socket_is_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as ours:
        ours.bind("socket")
        assert check.run(["--from", node(tmp_path, good=True), *LOW, "--json", "socket"]) == 3
    assert capsys.readouterr().err == "rig check: socket: is no file, pipe or terminal\n"


def test_a_pipe_that_nobody_reads_is_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_out, "READER_S", 0.1)
    os.mkfifo(tmp_path / "pipe")
    assert check.run(["--from", node(tmp_path, good=True), *LOW, "--json", str(tmp_path / "pipe")]) == 3
    assert capsys.readouterr().err == f"rig check: {tmp_path}/pipe: nobody reads from this pipe\n"


def test_a_snapshot_on_standard_output_is_alone_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--from", node(tmp_path, good=True), *LOW]
    assert check.run([*asked, "--save", "-", "--html", str(tmp_path / "page"), "--tap", "/dev/null"]) == 0
    assert "machine" in json.loads(capsys.readouterr().out) and (tmp_path / "page").is_file()
    assert check.run([*asked, "--json", "/dev/null", "--junit", "/dev/null"]) == 0  # it takes them all


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_by_its_names_is_not_replaced(name: str, tmp_path: Path) -> None:
    there = tmp_path / "there"
    told = command("--from", node(tmp_path, good=True), *LOW, "--json", name, ending=f"1>>'{there}'")
    assert told.returncode == 0 and json.loads(there.read_text())["exit_code"] == 0
    told = command("--from", node(tmp_path, good=True), *LOW, "--json", "/dev/fd/7", ending=f"7>>'{there}'")
    assert told.returncode == 0 and there.read_text().count('"exit_code"') == 2


def test_long_values_are_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert check.run(["--expect", "gpus=" + "8" * 3000]) == 3
    first = capsys.readouterr().err
    monkeypatch.setenv("RIG_EXPECT", "x" * 3000)
    assert check.run(["--from", "x"]) == 3
    second = capsys.readouterr().err
    assert first.startswith("rig check: --expect gpus=888") and first.endswith("... must be a whole number\n")
    assert second.startswith("rig check: RIG_EXPECT=xxx") and "words: gpus=8,hcas=8,gdr=1 (" in second
    assert max(len(first), len(second)) < 400 and len((first + second).splitlines()) == 2


def test_ending_listens_to_the_first_signal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before: dict[int, Callable[..., object] | int | None] = {one: signal.getsignal(one) for one in numbers}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        check._end_children_with_us()
        with pytest.raises(SystemExit) as ended:
            os.kill(os.getpid(), signal.SIGTERM)
        assert ended.value.code == 128 + signal.SIGTERM
        assert {signal.getsignal(one) for one in numbers} == {signal.SIG_IGN}
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)

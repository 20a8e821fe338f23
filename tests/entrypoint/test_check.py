"""`rig check` as a command: words, exit codes, where its results go. The machines are on paper; nothing is measured."""

import json
import os
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checks import LEVELS
from checks.catalogue import checks_of
from entrypoint import check
from rig.emit import to_json
from rig.snapshot import Snapshot, read_snapshot
from tests.checks.snapshots import h100, no_gpu
from tests.checks.twin import changed

MACHINES = Path(__file__).parents[1] / "machines"
H100 = str(MACHINES / "hgx-h100-ib" / "tree.txt")
RIG = Path(__file__).parents[2] / "entrypoint" / "rig"
LOW = "--only", "memlock_is_unlimited"


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this host's environment, and no folder but the test's own."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("RIG_STATE", str(tmp_path / "state"))


class Told:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def outcomes(self) -> dict[str, str]:
        return {one["id"]: one["outcome"] for one in json.loads(self.out)["results"]}


@pytest.fixture
def rig(capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    def run(*words: str) -> Told:
        code = check.run(list(words))
        told = capsys.readouterr()
        return Told(code, told.out, told.err)

    yield run


def saved(folder: Path, now: Snapshot) -> str:
    path = folder / "node.json"
    path.write_text(to_json(now))
    return str(path)


def low(folder: Path) -> str:
    """A node with a small memlock limit, that was sold with HCAs."""
    limits = {"machine__limits__memlock_bytes": 65536, "machine__surroundings__capabilities": ()}
    return saved(folder, changed(h100(), expected__hcas=8, **limits))


def test_a_machine_on_paper_is_judged_by_its_files(rig: Any) -> None:
    told = rig("--root", H100, "--level", "boot", *LOW)
    assert (told.code, told.err) == (0, "")
    assert "8 x NVIDIA H100 80GB HBM3" in told.out and "memlock_is_unlimited" in told.out
    assert told.out.splitlines()[-1] == "pass: 0 failed, 0 unknown, 0 warned, 0 skipped, 1 passed"


def test_every_level_of_a_machine_on_paper_is_judged_without_measuring(rig: Any) -> None:
    told = rig("--root", H100, "--level", "deep", "--json")
    data = json.loads(told.out)
    assert [one["id"] for one in data["results"]] == [one.id for one in checks_of("deep")]
    assert {one["state"] for one in data["probes"]} <= {"unasked"}
    measured = {one.id for one in checks_of("deep") if one.probe}
    assert {told.outcomes[name] for name in measured} <= {"skip", "unknown"}
    assert data["hostname"] == "node-1" and data["partial"] is False and data["exit_code"] == told.code


def test_a_failure_is_one_and_says_what_to_do(rig: Any, tmp_path: Path) -> None:
    told = rig("--from", low(tmp_path), *LOW)
    assert told.code == 1 and "fix   docker run --ulimit memlock=-1" in told.out


def test_what_does_not_apply_is_no_pass_and_no_skip_makes_it_fail(rig: Any, tmp_path: Path) -> None:
    path = saved(tmp_path, no_gpu())
    assert rig("--from", path, *LOW).code == 2
    told = rig("--from", path, *LOW, "--no-skip", "rdma", "--json")
    assert told.code == 1 and told.outcomes == {"memlock_is_unlimited": "fail"}


def test_what_cannot_be_told_is_two_and_strict_makes_it_one(rig: Any, tmp_path: Path) -> None:
    path = saved(tmp_path, changed(h100(), machine__limits__memlock_bytes=None))
    assert rig("--from", path, *LOW).code == 2
    assert rig("--from", path, *LOW, "--strict").code == 1


def test_a_saved_snapshot_says_the_same_again(rig: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "node.json")
    first = rig("--root", H100, "--level", "full", "--save", path, "--json")
    again = rig("--from", path, "--level", "full", "--json")
    assert again.code == first.code and again.outcomes == first.outcomes
    assert json.loads(again.out)["taken_at"] == json.loads(first.out)["taken_at"]
    assert to_json(read_snapshot(Path(path).read_text()), 3) + "\n" == Path(path).read_text()


def test_the_environment_is_kept_without_secrets(rig: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "NCCL_DEBUG": "INFO",
        "HF_TOKEN": "hf_abc",
        "HF_HOME": "/data",
        "NVIDIA_API_KEY": "x",
        "NCCL_NET": "hf_secret",
        "EDITOR": "vi",
        "LD_LIBRARY_PATH": "/opt/lib",
        "RIG_PLANNED": "NCCL_ALGO=Ring",
        "NCCL_ALGO": "Ring",
    }.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "node.json"
    rig("--root", H100, "--level", "boot", "--save", str(path))
    kept = read_snapshot(path.read_text()).environ
    assert {name: kept[name] for name in kept if name not in ("PATH", "RIG_STATE")} == {
        "NCCL_DEBUG": "INFO",
        "HF_HOME": "/data",
        "LD_LIBRARY_PATH": "/opt/lib",
    }


@pytest.mark.parametrize(
    ("variable", "words", "gpus"),
    [("", (), None), ("gpus=4", (), 4), ("gpus=4", ("--expect", "gpus=8"), 8), ("", ("--expect", "gpus=8"), 8)],
)
def test_the_command_line_stands_above_the_environment(
    variable: str, words: tuple[str, ...], gpus: int | None, rig: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIG_EXPECT", variable)
    path = tmp_path / "node.json"
    rig("--root", H100, "--level", "boot", "--save", str(path), *words)
    assert read_snapshot(path.read_text()).expected.gpus == gpus


def test_what_is_expected_can_be_said_of_a_saved_node(rig: Any, tmp_path: Path) -> None:
    node, again = low(tmp_path), tmp_path / "again.json"
    rig("--from", node, "--expect", "hcas=9", "--save", str(again))
    assert read_snapshot(again.read_text()).expected.hcas == 9


def test_pins_are_those_of_the_image_and_none_for_another_machine(rig: Any, tmp_path: Path) -> None:
    from entrypoint.check_run import pins

    assert pins()["NCCL_VERSION"] and "DISK_GB" not in pins()
    rig("--root", H100, "--level", "boot", "--save", str(tmp_path / "node.json"))
    assert read_snapshot((tmp_path / "node.json").read_text()).pins == {}


def test_a_replay_leaves_the_results_of_this_machine_alone(rig: Any, tmp_path: Path) -> None:
    rig("--from", low(tmp_path), *LOW)
    rig("--root", H100, "--level", "boot")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("name", ["json", "junit", "tap", "prom", "npd", "html"])
def test_standard_output_has_the_asked_format_alone(name: str, rig: Any, tmp_path: Path) -> None:
    first = {"json": "{", "junit": "<?xml", "tap": "TAP", "prom": "# HELP", "npd": "1 failed", "html": "<!DOCTYPE"}
    told = rig("--from", low(tmp_path), *LOW, f"--{name}")
    assert told.code == 1 and told.err == "" and told.out.startswith(first[name])
    assert "Failed (1)\n" not in told.out


def test_files_are_written_beside_the_text(rig: Any, tmp_path: Path) -> None:
    junit, html = tmp_path / "junit.xml", tmp_path / "page.html"
    told = rig("--from", low(tmp_path), *LOW, "--junit", str(junit), "--html", str(html))
    assert "Failed (1)\n" in told.out
    assert junit.read_text().startswith("<?xml") and html.read_text().startswith("<!DOCTYPE")


def test_a_link_stays_a_link_and_its_file_is_replaced(rig: Any, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "there")
    rig("--from", low(tmp_path), *LOW, "--json", str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink() and json.loads((tmp_path / "there").read_text())["exit_code"] == 1


def test_a_pipe_is_written_to_and_not_replaced(rig: Any, tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert rig("--from", low(tmp_path), *LOW, "--json", str(pipe)).code == 1
    reader.join(10)
    assert stat.S_ISFIFO(pipe.stat().st_mode) and json.loads(read[0])["exit_code"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--level", "fast"], "there is no level 'fast'; the levels are boot, quick, full, deep"),
        (["--only", "memlock_unlimited"], "did you mean memlock_is_unlimited?"),
        (["--explain", "memlock_unlimited"], "did you mean memlock_is_unlimited?"),
        (["--no-skip", "rmda"], "did you mean rdma?"),
        (["--expect", "gpu=8"], "--expect gpu=8: must be words such as"),
        (["--json", "--html"], "only one format fits on standard output"),
        (["--json", "/no/such/folder/x"], "/no/such/folder/x: there is no folder /no/such/folder"),
        (["--json", "/"], "/: is a folder, not a file"),
        (["--save", ""], "an empty name is no file"),
        (["--from", "/no/such/file"], "/no/such/file: No such file"),
        (["--from", "/"], "/: Is a directory"),
        (["--from", H100], "tree.txt: no JSON"),
        (["--from", "x", "--root", "y"], "one machine at a time"),
        (["--root", "/no/such/tree"], "/no/such/tree: no such file or folder"),
        (["--root", str(RIG)], f"rig check: --root {RIG}:1: not a capture"),
        (["--levels", "full"], "unrecognized arguments: --levels"),
        (["--lev", "full"], "unrecognized arguments: --lev"),
        (["--level"], "expected one argument"),
        (["full"], "unrecognized arguments: full"),
    ],
)
def test_wrong_usage_is_one_clear_line_and_three(words: list[str], said: str, rig: Any) -> None:
    told = rig(*words)
    assert (told.code, told.out) == (3, "") and said in told.err
    assert told.err.startswith("rig check: ") and len(told.err.splitlines()) == 1


def test_a_deep_nest_is_no_snapshot(rig: Any, tmp_path: Path) -> None:
    (tmp_path / "deep").write_text("[" * 100_000)
    told = rig("--from", str(tmp_path / "deep"))
    assert told.code == 3 and len(told.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "value"), [("RIG_EXPECT", "gpus=some"), ("RIG_CPU_RANKS", "0"), ("RIG_MODEL", "/no/such/file")]
)
def test_a_wrong_variable_is_named(name: str, value: str, rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    told = rig("--root", H100, "--level", "boot")
    assert told.code == 3 and told.err.startswith(f"rig check: {name}={value}: ") and len(told.err.splitlines()) == 1


def test_all_that_can_be_written_is_written_before_a_failure_is_told(rig: Any, tmp_path: Path) -> None:
    lost = tmp_path / ("x" * 250)  # the name of the file that is renamed to it is too long
    told = rig("--from", low(tmp_path), *LOW, "--junit", str(lost), "--html", str(tmp_path / "page.html"))
    assert told.code == 1 and "Failed (1)" in told.out and "File name too long" in told.err
    assert (tmp_path / "page.html").is_file()


def test_a_full_disk_behind_standard_output_is_said(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [str(RIG), "check", "--from", low(tmp_path), *LOW],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1 and done.stderr == "rig check: standard output: No space left on device\n"


def test_the_list_has_every_check_and_each_has_its_page(rig: Any) -> None:
    told = rig("--list")
    assert [line.split()[-1] for line in told.out.splitlines()] == [one.id for one in checks_of(LEVELS[-1])]
    boot = rig("--list", "--level", "boot").out.splitlines()
    assert [line.split()[-1] for line in boot] == [one.id for one in checks_of("boot")]
    page = rig("--explain", "memlock_is_unlimited")
    assert page.code == 0 and "RDMA buffers can be pinned." in page.out and "Symptom:" in page.out


def test_help_tells_levels_formats_and_exit_codes(rig: Any) -> None:
    told = rig("--help")
    assert told.code == 0
    assert [one for one in (*LEVELS, "--prom", "--npd", "3 wrong usage", "--strict") if one not in told.out] == []


def test_rig_lists_the_verb() -> None:
    done = subprocess.run([str(RIG), "--help"], capture_output=True, text=True, timeout=60)
    assert "check" in done.stdout

"""The parts of the probes that need neither a GPU nor torch. What prints and ends is run in tests/container."""

import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.probing import PROBES, ProbeProgram

FOLDER = Path(__file__).resolve().parent.parent.parent / "checks" / "probes"
HELPERS = {"telling", "devices", "ranks", "nccl_log"}


def program(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(f"import sys\nsys.path.insert(0, {str(FOLDER)!r})\n{text}")
    return [sys.executable, str(path)]


@pytest.mark.parametrize("one", PROBES, ids=[one.name for one in PROBES])
def test_each_probe_is_a_program_that_finds_its_helpers_and_dies_with_its_parent(one: ProbeProgram) -> None:
    tree = ast.parse((FOLDER / one.program).read_text())
    text = ast.unparse(tree)
    assert ast.get_docstring(tree)
    assert "sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))" in text
    assert text.endswith("run(main)")
    assert "from rig" not in text or one.python == "rig"  # the user's Python may be another version


def test_no_program_is_left_over_and_names_are_unique() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - HELPERS == {one.program.removesuffix(".py") for one in PROBES}
    assert len({one.name for one in PROBES}) == len(PROBES)


def test_quick_probes_measure_no_rates_and_what_asks_the_driver_says_so() -> None:
    for one in PROBES:
        assert not (one.at == "quick" and one.alone), one.name
        assert one.driver or "torch.cuda" not in (FOLDER / one.program).read_text() or one.name == "stack_import"


def test_only_json_reaches_standard_output(tmp_path: Path) -> None:
    text = "from telling import run, tell\nrun(lambda: (print('a library speaks'), tell(a=1), tell(b=[2])))"
    done = subprocess.run(program(tmp_path, text), capture_output=True, text=True, timeout=20, check=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"a": 1}, {"b": [2]}]


def test_what_was_told_before_a_crash_is_known_and_the_crash_is_a_failure(tmp_path: Path) -> None:
    text = "from telling import run, tell\ndef main():\n    tell(asking='GPU 3')\n    raise OSError('gone')\nrun(main)"
    done = subprocess.run(program(tmp_path, text), capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1 and json.loads(done.stdout) == {"asking": "GPU 3"} and "OSError: gone" in done.stderr


def test_a_probe_ends_when_its_parent_does(tmp_path: Path) -> None:
    words = program(tmp_path, "import time\nfrom telling import run, tell\nrun(lambda: (tell(a=1), time.sleep(60)))")
    parent = f"import subprocess, sys\none = subprocess.Popen({words!r}, stdout=subprocess.PIPE)\n"
    parent += "one.stdout.readline()\nprint(one.pid, flush=True)\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as one:
        assert one.stdout is not None
        child = int(one.stdout.readline())
        assert Path(f"/proc/{child}/stat").exists()
        one.kill()
    until = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and Path(f"/proc/{child}/stat").read_text().split(") ")[1][0] != "Z":
        assert time.monotonic() < until
        time.sleep(0.02)


def test_an_error_is_one_line(probe: Callable[[str], Any]) -> None:
    telling = probe("telling")
    assert telling.first_line(ValueError("a\n  b")) == "ValueError: a b"
    assert telling.first_line(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_shm_is_filled_as_far_as_it_goes(
    probe: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shm = probe("shm")
    assert shm.fill(str(tmp_path), 1 << 20) == (1 << 20, None)
    assert list(tmp_path.iterdir()) == []
    written = iter([4096, 4096])

    def full(handle: int, data: bytes) -> int:
        for count in written:
            return count
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shm.os, "write", full)
    assert shm.fill(str(tmp_path), 1 << 20) == (8192, "No space left on device")


def test_a_disk_is_measured_and_left_as_it_was(probe: Callable[[str], Any], tmp_path: Path) -> None:
    disk = probe("disk")
    disk.measure(str(tmp_path), 8 << 20)
    told = {key: value for one in disk.said for key, value in one.items()}
    assert told["write_bytes_per_s"] > 0 and told["read_bytes_per_s"] > 0 and told["error"] is None
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_to_a_disk_that_is_nearly_full(probe: Callable[[str], Any], tmp_path: Path) -> None:
    disk = probe("disk")
    disk.measure(str(tmp_path), 1 << 60)
    assert "nothing was written" in disk.said[-1]["error"] and "write_bytes_per_s" not in str(disk.said)


RANK = """
import os, sys, time
import ranks
folder = ranks.folder_of_rank()
if folder:
    rank, world = ranks.place()
    if "--fail" in sys.argv and rank == 1:
        sys.exit("CUDA error 802\\nsecond line")
    if "--fail" in sys.argv:
        time.sleep(60)
    ranks.leave(folder, rank=rank, world=world)
ranks.GRACE_S = 0.1
codes = ranks.start(__file__, 3, sys.argv[1], {})
print(codes, ranks.results(sys.argv[1], 3), ranks.last_words(sys.argv[1], codes))
"""


def test_ranks_meet_and_leave_their_results(tmp_path: Path) -> None:
    done = subprocess.run(
        [*program(tmp_path, RANK), str(tmp_path)], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout == f"[0, 0, 0] {[{'rank': rank, 'world': 3} for rank in range(3)]} None\n"


def test_one_rank_that_fails_ends_the_others_and_is_quoted(tmp_path: Path) -> None:
    words = [*program(tmp_path, RANK), str(tmp_path), "--fail"]
    began = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "[-9, 1, -9] [] rank 1: second line\n"
    assert time.monotonic() - began < 10


HOLDS_A_FOLDER = """
import contextlib, os, sys, time
sys.path.insert(0, {folder!r})
from telling import own_folder, run, tell

def main():
    with own_folder("test") as folder:
        open(os.path.join(folder, "result.0"), "w").close()
        tell(folder=folder)
        {then}

run(main)
"""


def held(tmp_path: Path, then: str) -> tuple[subprocess.Popen[bytes], Path]:
    """A probe that has made its folder, and the folder."""
    path = tmp_path / "holds.py"
    path.write_text(HOLDS_A_FOLDER.format(folder=str(FOLDER), then=then))
    child = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, env={"TMPDIR": str(tmp_path)})
    assert child.stdout is not None
    with child.stdout:
        return child, Path(json.loads(child.stdout.readline())["folder"])


@pytest.mark.parametrize("catching", ["", "with contextlib.suppress(Exception, SystemExit): "])
def test_a_probe_that_is_ended_by_term_leaves_no_folder(tmp_path: Path, catching: str) -> None:
    child, folder = held(tmp_path, f"{catching}time.sleep(60)")
    assert folder.is_dir() and folder.name.startswith("rig-test-")
    child.terminate()
    assert child.wait(5) == 143 and not folder.exists()


def test_what_a_killed_probe_left_is_deleted_an_hour_later(tmp_path: Path) -> None:
    child, folder = held(tmp_path, "time.sleep(60)")
    child.kill()
    child.wait(5)
    other = tmp_path / "rig-another-one"
    other.mkdir()
    old = time.time() - 4000
    os.utime(other, (old, old))
    assert held(tmp_path, "pass")[0].wait(5) == 0 and folder.is_dir()  # it may be at work yet
    os.utime(folder, (old, old))
    assert held(tmp_path, "pass")[0].wait(5) == 0 and not folder.exists() and other.is_dir()

"""The command `rig`: a standard output that takes nothing is one line and exit code 1, whatever the verb."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
TREE = "tests/machines/hgx-h100-ib/tree.txt"
VERBS = {
    "nothing but help": "--help",
    "facts": f"facts --root {TREE}",
    "facts as JSON": f"facts --json --root {TREE}",
    "capture": f"capture - --root {TREE}",
    "example": "platform example",
    "help of platform": "platform --help",
}


def rig(words: str, unbuffered: str = "") -> "subprocess.CompletedProcess[str]":
    line = f"{sys.executable} {unbuffered} -m entrypoint {words}"
    return subprocess.run(["sh", "-c", line], cwd=CHECKOUT, capture_output=True, text=True, env={}, timeout=60)


@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize(
    ("to", "why"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")], ids=["full", "closed"]
)
@pytest.mark.parametrize("buffered", ["", "-u"])
def test_a_lost_output_is_one_line(words: str, to: str, why: str, buffered: str) -> None:
    done = rig(f"{words} {to}", buffered)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"rig: cannot write to standard output: {why}\n"


def test_nothing_is_lost_where_nothing_is_printed(tmp_path: Path) -> None:
    assert rig(f"capture {tmp_path}/out --root {TREE} >&-").returncode == 0
    assert (tmp_path / "out").read_text().startswith("rig-capture 1\n")
    assert rig("nonsense >&-").returncode == 64
    assert rig("facts --root /none >/dev/full").returncode == 64


def test_a_reader_that_goes_ends_it_quietly() -> None:
    done = rig(f"facts --json --root {TREE} | head -n 1")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout == "{\n"


@pytest.mark.parametrize("words", ["check --from", "check --root", "facts --root", "capture - --root"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, words: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = rig(f"{words} {tmp_path}/pipe")
    assert (done.returncode, done.stdout) == (3 if "check" in words else 64, "")
    assert done.stderr.endswith("not a regular file; copy what it holds into one, and name that\n")
    assert len(done.stderr.splitlines()) == 1

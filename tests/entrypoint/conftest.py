"""A boot on this host over a machine on paper: an empty tree, so no GPU and no HCA, and its files in a folder."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

RIG = Path(__file__).parents[2] / "entrypoint" / "rig"


class Booted:
    """What a finished boot left: exit code, both streams, and the folder of its files."""

    def __init__(self, done: "subprocess.CompletedProcess[str]", state: Path) -> None:
        self.code, self.out, self.err, self.state = done.returncode, done.stdout, done.stderr, state

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()


class Here:
    """A working folder to write programs into and to boot in."""

    def __init__(self, folder: Path) -> None:
        self.work, self.state, self.tree = folder / "work", folder / "state", folder / "tree"
        for made in (self.work, self.tree, folder / "home"):
            made.mkdir()
        self.environ = {
            "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
            "HOME": str(folder / "home"),
            "USER": "tester",
            "LOGNAME": "tester",
            "RIG_ROOT": str(self.tree),
            "RIG_STATE": str(self.state),
        }
        self.started: list[subprocess.Popen[str]] = []

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.work / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def boot(self, *words: str, **environ: str) -> Booted:
        done = subprocess.run(
            [str(RIG), "boot", "--", *words],
            cwd=self.work,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Booted(done, self.state)

    def start(self, *words: str, **environ: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [str(RIG), "boot", "--", *words],
            cwd=self.work,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self.started.append(process)
        return process

    def wait_for(self, *names: str, seconds: float = 20) -> None:
        """Until the running programs have made these files in the working folder."""
        until = time.monotonic() + seconds
        while not all((self.work / name).exists() for name in names):
            assert time.monotonic() < until, f"{names} did not come: {os.listdir(self.work)}"
            time.sleep(0.01)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    place = Here(tmp_path)
    yield place
    for process in place.started:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


@pytest.fixture
def alive() -> Callable[[int], bool]:
    """Whether a process runs (a zombie does not)."""

    def look(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False

    return look

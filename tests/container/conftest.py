"""The built image in a real engine. Without them: a failure where CI=true, else a skip that says why."""

import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from factory.engine import Engine, find_engine
from factory.say import Refused

IMAGE = os.environ.get("RIG_TEST_IMAGE") or "trainrig/deepspeed:dev"
PROGRAMS = Path(__file__).parent / "programs"


class Done(NamedTuple):
    """A container that ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """rig's own lines."""
        return [line for line in self.err.splitlines() if line.startswith("rig: ")]


class Container:
    """A container that runs in the background."""

    def __init__(self, docker: "Docker", name: str) -> None:
        self.docker, self.name = docker, name

    def exec(self, *words: str, options: Sequence[str] = ()) -> Done:
        return self.docker.call("exec", *options, self.name, *words)

    def wait(self, seconds: float = 90) -> int:
        """The exit code."""
        return int(self.docker.call("wait", self.name, seconds=seconds).out)

    def logs(self) -> Done:
        return self.docker.call("logs", self.name)

    def wait_for(self, text: str, count: int = 1, seconds: float = 90) -> None:
        """Until the text has come `count` times."""
        until = time.monotonic() + seconds
        while True:
            logs = self.logs()
            if (logs.out + logs.err).count(text) >= count:
                return
            assert time.monotonic() < until, f"{text!r} did not come:\n{logs.out}\n{logs.err}"
            time.sleep(0.1)

    def processes(self) -> list[list[str]]:
        """[pid, parent's pid, state, command line] of each process."""
        table = self.exec("ps", "-eo", "pid=,ppid=,stat=,args=").out
        return [line.split(None, 3) for line in table.splitlines()]


class Docker:
    """The engine's client, and the image under test."""

    def __init__(self, engine: Engine, image: str) -> None:
        self.engine, self.image = engine, image
        self.names: list[str] = []

    def call(self, *words: str, seconds: float = 120) -> Done:
        done = self.engine.call(*words, timeout_s=seconds)
        return Done(done.returncode, done.stdout, done.stderr)

    def run(self, *words: str, options: Sequence[str] = (), seconds: float = 120) -> Done:
        """`docker run --rm OPTIONS IMAGE WORDS` to its end."""
        name = self._name()
        return self.call("run", "--rm", "--name", name, *options, self.image, *words, seconds=seconds)

    def start(self, *words: str, options: Sequence[str] = ()) -> Container:
        """The same in the background."""
        name = self._name()
        started = self.call("run", "--detach", "--name", name, *options, self.image, *words)
        assert started.code == 0, started.err
        return Container(self, name)

    def _name(self) -> str:
        self.names.append(f"rig-test-{uuid.uuid4().hex[:12]}")
        return self.names[-1]

    def tidy(self) -> None:
        if self.names:
            self.engine.call("rm", "--force", "--volumes", *self.names)
            self.names.clear()


@pytest.fixture(scope="session")
def engine() -> Engine:
    """An engine that has the image."""
    try:
        found = find_engine(may_install=False)
    except Refused as error:
        return _missing(str(error))
    if found.call("image", "inspect", IMAGE).returncode != 0:
        return _missing(f"the engine has no image {IMAGE}: make image, or set RIG_TEST_IMAGE")
    return found


def _missing(why: str) -> Engine:
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture
def docker(engine: Engine) -> Iterator[Docker]:
    client = Docker(engine, IMAGE)
    yield client
    client.tidy()


@pytest.fixture
def workspace(tmp_path: Path) -> Callable[..., list[str]]:
    """Options that mount a folder with the named programs as /workspace, writable for any user."""
    tmp_path.chmod(0o777)

    def mount(*programs: str, **texts: str) -> list[str]:
        for name in programs:
            (tmp_path / name).write_bytes((PROGRAMS / name).read_bytes())
        for name, text in texts.items():
            (tmp_path / name.replace("__", ".")).write_text(text)
        return ["--volume", f"{tmp_path}:/workspace"]

    return mount


@pytest.fixture
def terminal(engine: Engine) -> Callable[[list[str], str], tuple[int, str]]:
    """Run `docker run` with these words on a pseudo-terminal and type the text; exit code and all that was shown."""

    def run(words: list[str], typed: str) -> tuple[int, str]:
        ours, theirs = os.openpty()
        process = subprocess.Popen(
            [engine.client, "run", "--rm", "-it", *words], stdin=theirs, stdout=theirs, stderr=theirs, process_group=0
        )
        os.close(theirs)
        os.write(ours, typed.encode())
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
        os.close(ours)
        return process.wait(60), shown.decode(errors="replace")

    return run

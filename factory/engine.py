"""A Docker engine that runs, a client that speaks to it, a builder with BuildKit: found, else installed and started.

Nothing else in the tree knows how to talk to a builder.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from factory.say import Refused, say

# What Debian and Ubuntu call it; the last three exist only where the distribution splits them off.
PACKAGES = ("docker.io", "containerd", "runc", "iptables")
OPTIONAL_PACKAGES = ("docker-cli", "docker-buildx")
START_SECONDS = 60
ENGINE_LOG = Path("/var/log/trainrig-dockerd.log")
PID_FILES = tuple(
    Path(name) for name in ("/var/run/docker.pid", "/var/run/docker/containerd/containerd.pid", "/run/docker.pid")
)


class Engine(NamedTuple):
    """`client` is the docker program to call; `builder` is "buildx" or "buildkit" (the client's own)."""

    client: str
    version: str
    builder: str

    def build_command(self, *args: str) -> list[str]:
        """`docker build` with BuildKit, result in the engine's own store."""
        if self.builder == "buildx":
            return [self.client, "buildx", "build", "--load", *args]
        return [self.client, "build", *args]

    def environment(self) -> dict[str, str]:
        """The environment for every call of the client."""
        return {**os.environ, "DOCKER_BUILDKIT": "1", "BUILDKIT_PROGRESS": "plain", "DOCKER_CLI_HINTS": "false"}

    def call(self, *args: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """One call of the client, its output captured; the caller looks at the status. 124: it did not end in time."""
        command = [self.client, *args]
        try:
            return subprocess.run(
                command, env=self.environment(), capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", f"no answer within {timeout_s:.0f} s")


def find_engine(*, may_install: bool = True) -> Engine:
    """A usable engine. As root on Debian or Ubuntu it is installed and started when there is none, and that is said.

    Raises Refused with what to install where it can do neither.
    """
    if (engine := _running()) is not None:
        return engine
    if os.environ.get("DOCKER_HOST"):
        raise Refused(
            f"no Docker engine answers at DOCKER_HOST={os.environ['DOCKER_HOST']}: start it or unset DOCKER_HOST"
        )
    if not may_install or os.geteuid() != 0 or not _debian():
        raise Refused(
            "no Docker engine with BuildKit found: install Docker 20.10 or later (with buildx where the client is 23 "
            "or later) and start it, or run this as root on Debian or Ubuntu, or set DOCKER_HOST"
        )
    if shutil.which("dockerd") is None or _builder_client() is None:
        _install()
    if _server_version(_builder_client() or "docker") is None:
        _start()
    if (engine := _running()) is None:
        raise Refused(f"the Docker engine started but cannot build with BuildKit; its log is {ENGINE_LOG}")
    return engine


def _clients() -> list[str]:
    """Docker clients, in the order of PATH and then the distribution's: the first may lack buildx, the second not."""
    found = [shutil.which("docker"), "/usr/bin/docker"]
    return list(dict.fromkeys(path for path in found if path and os.access(path, os.X_OK)))


def _running() -> Engine | None:
    """The engine that answers, with the first client that can build with BuildKit."""
    for client in _clients():
        if (version := _server_version(client)) and (builder := _builder(client)):
            return Engine(client, version, builder)
    return None


def _server_version(client: str) -> str | None:
    told = _output(client, "version", "--format", "{{.Server.Version}}")
    return told.strip() or None if told else None


def _builder(client: str) -> str | None:
    """Which BuildKit this client has: its buildx plugin, or its own (until 22) with DOCKER_BUILDKIT=1."""
    if (told := _output(client, "buildx", "version")) and "buildx" in told:
        return "buildx"
    version = _output(client, "version", "--format", "{{.Client.Version}}") or _output(client, "--version") or ""
    digits = version.replace("Docker version", "").strip().partition(".")[0]
    return "buildkit" if digits.isdigit() and int(digits) < 23 else None


def _builder_client() -> str | None:
    return next((client for client in _clients() if _builder(client)), None)


def _output(*argv: str) -> str | None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _debian() -> bool:
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return False
    return any(line in ("ID=debian", "ID=ubuntu") for line in text.splitlines())


def apt_install(*packages: str) -> None:
    """Install distribution packages on this host; Refused with apt's own last line when it fails."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            raise Refused(f"{' '.join(command)} failed: {last}")


def _install() -> None:
    wanted = list(PACKAGES)
    for name in OPTIONAL_PACKAGES:
        if _output("apt-cache", "show", name):
            wanted.append(name)
    say(f"no Docker engine here: installing the distribution's ({' '.join(wanted)})")
    apt_install(*wanted)


def _start() -> None:
    """Start dockerd in a session of its own, so that it outlives this program, and wait until it answers."""
    _forget_dead_engine()
    say(f"starting dockerd (log: {ENGINE_LOG}); it stays running")
    with ENGINE_LOG.open("ab") as log:
        child = subprocess.Popen(
            ["dockerd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if any(_server_version(client) for client in _clients()):
            return
        if child.poll() is not None:
            last = ENGINE_LOG.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise Refused(f"dockerd ended with {child.returncode}: {' '.join(last)}")
        time.sleep(0.3)
    child.send_signal(signal.SIGTERM)
    raise Refused(f"dockerd did not answer within {START_SECONDS} s; its log is {ENGINE_LOG}")


def _forget_dead_engine() -> None:
    """Remove pid files of an engine that ended uncleanly: their pid may belong to another process by now, and dockerd
    then refuses to start."""
    for path in PID_FILES:
        try:
            pid = int(path.read_text(encoding="ascii").strip())
            name = Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            name = ""
        if name not in ("dockerd", "containerd"):
            path.unlink(missing_ok=True)

"""The catalogue of checks on an image, from outside: a container with this host's devices, pytest on it, and away."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from factory.build import FINISHED
from factory.engine import Engine
from factory.run import run_flags
from factory.say import Refused, say

CHECKOUT = Path(__file__).resolve().parent.parent
IDLE = ("sleep", "86400")  # what the container does meanwhile: its own entrypoint boots it first
KERNEL_LOG = ("--cap-add", "SYSLOG")  # it is closed to a container, and Xids are in it


def check_image(engine: Engine, image: str | None, options: Sequence[str]) -> int:
    """pytest's exit code for `pytest checks OPTIONS` on a container of the image. Refused where none can be started.
    The container is removed whatever happens."""
    image, name = image or FINISHED, f"rig-check-{os.getpid()}"
    try:
        flags = [*run_flags(os.path.exists), *KERNEL_LOG]
        say(f"docker run {' '.join(flags)} {image}, then pytest checks {' '.join(options)}")
        started = engine.call("run", "--detach", "--name", name, *flags, image, *IDLE, timeout_s=600)
        if started.returncode:
            raise Refused(f"{image} cannot be started: {_reason(started.stderr)}", 1)
        return subprocess.run(
            [sys.executable, "-m", "pytest", "checks", f"--hosts=docker://{name}", *options],
            cwd=CHECKOUT,
            env=environment(engine),
            check=False,
        ).returncode
    finally:
        engine.call("rm", "--force", "--volumes", name)


def environment(engine: Engine) -> dict[str, str]:
    """testinfra calls the first `docker` on PATH: make that the client which speaks to the engine."""
    told = engine.environment()
    return {**told, "PATH": os.pathsep.join((os.path.dirname(engine.client), told.get("PATH", os.defpath)))}


def _reason(text: str) -> str:
    """The client's line with the error: some clients end with advice about --help."""
    lines = text.strip().splitlines() or ["no reason was given"]
    return next((line for line in lines if "rror" in line), lines[-1])

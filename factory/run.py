"""`docker run` with the flags that this host's devices ask for."""

import os
import sys
from collections.abc import Callable

from factory.build import FINISHED
from factory.engine import Engine

LIMITS = ("--ulimit", "memlock=-1", "--ulimit", "stack=67108864")


def run_flags(exists: Callable[[str], bool]) -> list[str]:
    """The flags of `docker run` for a host on which these device nodes exist.

    NCCL needs more shared memory than Docker's 64 MB. The limits are for GPUs and RDMA, which pin memory; an engine
    that may not raise them itself (rootless, or in a container) refuses to start anything with them. Several nodes need
    the network of the host.
    """
    gpus, rdma = exists("/dev/nvidiactl"), exists("/dev/infiniband")
    flags = ["--ipc=host"]
    if gpus or rdma:
        flags += LIMITS
    if gpus:
        flags += ["--gpus", "all"]
    if rdma:
        flags += ["--device", "/dev/infiniband", "--network", "host"]
    return flags


def run_image(engine: Engine, command: list[str]) -> None:
    """Replace this process by the container's; a terminal stays a terminal."""
    terminal = ["--interactive", "--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else []
    argv = [engine.client, "run", "--rm", *terminal, *run_flags(os.path.exists), FINISHED, *command]
    print(f"+ docker {' '.join(argv[1:])}", file=sys.stderr, flush=True)
    os.execv(engine.client, argv)

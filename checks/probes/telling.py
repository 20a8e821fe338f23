"""What every probe does: it dies with its parent, and prints nothing but JSON objects, one a line, at once.

Probes run with the user's Python or with the system's, so they use nothing of rig: they find this file beside them.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

PR_SET_PDEATHSIG = 1  # prctl(2)

LEFT_S = 3600.0  # no probe runs as long: a folder of ours that is older was left by one that was killed

_out: list[int] = []  # the real standard output


class Terminated(BaseException):
    """TERM came. No SystemExit: a probe catches those of libraries."""


def die_with_parent() -> None:
    """KILL comes when the parent ends, so that no probe outlives a check that was interrupted."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it ended before we asked


def tell(**data: Any) -> None:
    """Print one JSON object. What is told before something hangs is known."""
    os.write(_out[0], (json.dumps(data) + "\n").encode())


def run(main: Callable[[], None]) -> None:
    """Run a probe: libraries that print (DeepSpeed logs to standard output) are led to the error output.

    Ends without the interpreter's farewell: what was measured is told, and one exit in sixty with gloo aborts there.
    """
    _out.append(os.dup(1))
    os.dup2(2, 1)
    die_with_parent()
    signal.signal(signal.SIGTERM, _end)
    try:
        main()
    except Terminated:
        os._exit(128 + signal.SIGTERM)
    sys.stderr.flush()
    os._exit(0)


def _end(number: int, frame: object) -> None:
    """TERM comes half a second before KILL: time to delete what was made."""
    signal.signal(number, signal.SIG_IGN)
    raise Terminated


@contextlib.contextmanager
def own_folder(name: str) -> Iterator[str]:
    """A temporary folder `rig-NAME-...`, deleted at the end and on TERM. KILL leaves it: the next probe that makes one
    after an hour deletes it."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            told = entry.stat(follow_symlinks=False) if entry.name.startswith(f"rig-{name}-") else None
            if told and told.st_uid == os.geteuid() and time.time() - told.st_mtime > LEFT_S:
                shutil.rmtree(entry.path, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"rig-{name}-", ignore_cleanup_errors=True) as folder:
        yield folder


def first_line(error: BaseException) -> str:
    """An exception as one line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:300]}" if words else type(error).__name__

"""What every probe does: it dies with its parent, and prints nothing but JSON objects, one a line, at once.

Probes run with the user's Python or with the system's, so they use nothing of rig: they find this file beside them.
"""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

PR_SET_PDEATHSIG = 1  # prctl(2)

_out: list[int] = []  # the real standard output


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
    main()
    sys.stderr.flush()
    os._exit(0)


def first_line(error: BaseException) -> str:
    """An exception as one line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:300]}" if words else type(error).__name__

"""The last act of a boot: become the user's program, or start the ranks and stay as their supervisor."""

import errno
import os

from entrypoint.say import Voice
from entrypoint.state import write_file
from rig.lean import Callable, Mapping, NamedTuple
from rig.ranks import Place, port_candidates, rank_environment
from rig.root import Live

PORT_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"


def look_at(path: str) -> str:
    """What a path is to this process, in the words of rig.command."""
    if os.path.isdir(path):
        return "folder"
    if not os.path.exists(path):
        return "missing"
    if not os.path.isfile(path):
        return "device"
    runs = os.access(path, os.X_OK)
    if not os.access(path, os.R_OK):
        return "sealed" if runs else "closed"
    return "program" if runs else "file"


def find_program(name: str, path: str) -> str | None:
    """The first executable of that name on PATH."""
    for folder in path.split(":"):
        place = f"{folder or '.'}/{name}"
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    return None


def become(path: str, argv: tuple[str, ...], environ: Mapping[str, str], voice: Voice) -> int:
    """Replace this process by a program. Returns only where that failed: 126 or 127, as shells have it."""
    import _signal  # type: ignore[import-not-found]  # the module `signal` costs a millisecond

    # An interpreter ignores these two, and an ignored signal stays ignored: `yes | head` would not end quietly.
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)
    try:
        os.execve(path, argv, environ)
    except OSError as error:
        if error.errno == errno.ENOEXEC and _is_text(path):  # no first line: a shell would run it too
            return _become_shell(path, argv, environ, voice)
        reason = error.strerror or str(error)
        if error.errno == errno.ENOENT:
            reason = "the interpreter in its first line does not exist"
        elif error.errno == errno.ENOEXEC:
            reason = f"not a program for this machine ({os.uname().machine})"
        voice.error(f"{path}: {reason}")
        return 127 if error.errno == errno.ENOENT else 126


def _is_text(path: str) -> bool:
    """Whether a file could be a shell script: no zero byte in its first line, as bash looks at it."""
    try:
        with open(path, "rb") as file:
            return b"\0" not in file.read(128).partition(b"\n")[0]
    except OSError:
        return False


def _become_shell(path: str, argv: tuple[str, ...], environ: Mapping[str, str], voice: Voice) -> int:
    try:
        os.execve("/bin/sh", ("/bin/sh", path, *argv[1:]), environ)
    except OSError as error:
        voice.error(f"{path}: /bin/sh, which would have to run it: {error.strerror or error}")
        return 126


class Script(NamedTuple):
    """A Python file to start once for each rank: `words(local_rank)` are its arguments."""

    python: str
    path: str
    words: Callable[[int], tuple[str, ...]]


def start_ranks(
    script: Script, place: Place, environ: Mapping[str, str], grace_s: float, folder: str | None, voice: Voice
) -> int:
    """Start and supervise the ranks of this node; the exit code of the job."""
    from entrypoint.supervise import Start, Supervisor

    starts = [
        # -u as DeepSpeed's launcher does: what a killed rank printed last must not be lost in a buffer.
        Start(
            place.first_rank + local,
            script.python,
            ("-u", script.path, *script.words(local)),
            {**environ, **rank_environment(place, local)},
        )
        for local in range(place.local_size)
    ]

    missed: list[str] = []

    def record(text: str) -> None:
        why = None if folder is None else write_file(f"{folder}/ranks.json", text + "\n")
        if why is not None and not missed:
            missed.append(why)  # said once, not at each end of a rank
            voice.warning(f"{folder}/ranks.json was not written: {why}")

    return Supervisor(grace_s, voice.notice, record).run(starts)


def free_port() -> int:
    """A TCP port that nobody listens on, and that the kernel will not give to an outgoing connection meanwhile."""
    import _socket  # the module `socket` costs milliseconds

    for port in port_candidates(Live().read(PORT_RANGE), os.urandom(4)):
        probe = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            continue
        else:
            return port
        finally:
            probe.close()
    return port

"""/etc/rig/boot.d: what an image or a platform wants to happen at boot, before rig looks at the machine.

In the order of their names: `NN-name.txt` is shown, `NN-name.sh` is sourced by a shell and what it exports is kept, any
other executable is run. `.required`, as the last suffix or before .sh and .txt, makes a failure the end of the boot.
"""

import os
import time

from entrypoint.state import NEW, fresh_name
from rig.lean import Callable, NamedTuple

REQUIRED = ".required"
SLOW_S = 10.0  # a hook may take its time, but nobody should wonder what the boot waits for
# Set by the shell that sources a hook, and of no use to anybody after it.
SHELL_OWN = ("_", "SHLVL", "PWD", "OLDPWD")


class Hooked(NamedTuple):
    """The environment after all hooks, the texts to show, a line for each hook that failed, and whether one of
    these was required."""

    environ: dict[str, str]
    texts: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    fatal: bool = False


def run_hooks(
    environ: dict[str, str], scratch: str | None, folder: str, say_slow: Callable[[str], None] = lambda line: None
) -> Hooked:
    """Run the hooks of `folder`. `scratch` is a folder that can be written, for what a sourced hook exports; `say_slow`
    takes a line on a hook that has run for SLOW_S."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return Hooked(environ)
    texts: list[str] = []
    failed = []
    for name in names:
        if name.startswith(".") or name.endswith("~"):
            continue
        waits = _Patience(f"hook {folder}/{name} has run for {SLOW_S:g} s, and the boot waits for it", say_slow)
        why, environ = _run_hook(f"{folder}/{name}", environ, scratch, texts, waits)
        if why is None:
            continue
        failed.append(f"hook {folder}/{name} {why}")
        if required(name):
            return Hooked(environ, tuple(texts), tuple(failed), True)
    return Hooked(environ, tuple(texts), tuple(failed))


def required(name: str) -> bool:
    """Whether a hook's failure ends the boot."""
    return name.removesuffix(".sh").removesuffix(".txt").endswith(REQUIRED)


class _Patience(NamedTuple):
    """A line, and who takes it once a hook has been waited for too long."""

    line: str
    say: Callable[[str], None]

    def wait(self, pid: int) -> int:
        """Wait status of a child. Polled, since a wait with a time limit would need signals."""
        until, pause, said = time.monotonic() + SLOW_S, 0.0005, False
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status
            if not said and time.monotonic() >= until:
                self.say(self.line)
                said = True
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)


def _run_hook(
    path: str, environ: dict[str, str], scratch: str | None, texts: list[str], patience: _Patience
) -> tuple[str | None, dict[str, str]]:
    """Why the hook failed (None: it did not), and the environment after it."""
    kind = path.removesuffix(REQUIRED)
    if not os.path.isfile(path):
        return "is no file", environ
    if kind.endswith(".txt"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                texts += file.read().splitlines()
        except OSError as error:
            return f"cannot be read: {error.strerror}", environ
        return None, environ
    if kind.endswith(".sh"):
        return _source(path, environ, scratch, patience)
    if os.access(path, os.X_OK):
        return _ended(_spawn((path,), environ, patience)), environ
    return "is neither .sh, .txt nor executable", environ


def _source(
    path: str, environ: dict[str, str], scratch: str | None, patience: _Patience
) -> tuple[str | None, dict[str, str]]:
    if scratch is None:
        return "was not sourced: there is no folder to write to", environ
    exported = fresh_name(f"{scratch}/hook")
    try:
        os.close(os.open(exported, NEW, 0o600))  # before the shell writes: the whole environment is nobody else's
    except OSError as error:
        return f"was not sourced: {exported}: {error.strerror}", environ
    # A trap, so that a hook that calls `exit` is heard too. A file and not a pipe, because something that the hook left
    # in the background would keep a pipe open. Paths come as variables: a hook may change the shell's own words.
    script = 'trap \'code=$?; env -0 >"$_rig_out"; exit $code\' EXIT; . "$_rig_hook"'
    told = {**environ, "_rig_out": exported, "_rig_hook": path}
    shell = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
    why = _ended(_spawn((shell, "-c", script, path), told, patience))
    pairs = [part.partition(b"=") for part in _taken(exported).split(b"\0") if part]
    if why is not None or not pairs:
        return why or "left no environment behind", environ
    after = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    kept = {name: environ[name] for name in SHELL_OWN if name in environ}
    ours = (*SHELL_OWN, "_rig_out", "_rig_hook")
    return None, {**{name: value for name, value in after.items() if name not in ours}, **kept}


def _taken(path: str) -> bytes:
    """What a file holds, and the file is gone."""
    try:
        with open(path, "rb") as file:
            os.unlink(path)
            return file.read()
    except OSError:
        return b""


def _spawn(argv: tuple[str, ...], environ: dict[str, str], patience: _Patience) -> int | str:
    """Run a program to its end, nothing on its standard input, its standard output on our standard error."""
    actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, 2, 1)]
    try:
        pid = os.posix_spawn(argv[0], argv, environ, file_actions=actions, setsigdef=(13, 25))  # SIGPIPE, SIGXFSZ
    except OSError as error:
        return error.strerror or str(error)
    return os.waitstatus_to_exitcode(patience.wait(pid))


def _ended(status: int | str) -> str | None:
    if isinstance(status, str):
        return f"could not be started: {status}"
    if status == 0:
        return None
    return f"ended with exit code {status}" if status > 0 else f"was ended by signal {-status}"

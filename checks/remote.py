"""A snapshot of a host that testinfra reaches (docker, ssh, ...): `rig check` looks there, we read what it saved."""

import shlex
from typing import Any

from checks.formats import flat
from rig.snapshot import Snapshot, SnapshotError, read_snapshot

JUDGED = (0, 1, 2)  # rig check: pass, fail, could not judge
NO_RIG, NO_PLACE = 127, 73  # what SCRIPT ends with before rig starts; it says why itself
# Into a file of its own and then out: what rig prints and what a login shell adds stays apart. /dev/shm can be written
# where the root file system cannot. `timeout`, since neither testinfra nor ssh ends a command that hangs.
SCRIPT = """
command -v rig >/dev/null || {{ echo "no command rig on its PATH ($PATH)" >&2; exit 127; }}
for at in "${{TMPDIR:-/tmp}}" /dev/shm; do folder=$(mktemp -d -p "$at" 2>/dev/null) && break; done
test -n "$folder" || {{ echo "neither /tmp nor /dev/shm can be written" >&2; exit 73; }}
trap 'rm -rf "$folder"' EXIT
{expect}timeout -k 10 {seconds:.0f} rig check --level {level} --save "$folder/snapshot" >"$folder/said" 2>&1
code=$?
cat "$folder/snapshot" 2>/dev/null || tail -n 3 "$folder/said" >&2
exit $code
"""


class NoSnapshot(Exception):
    """The host sent nothing to judge: one line with the reason."""


def take_snapshot(host: Any, level: str, expect: str | None, seconds: float) -> Snapshot:
    """Let a host (testinfra.host.Host) look at itself. `expect` stands above the host's own RIG_EXPECT."""
    told = f"RIG_EXPECT={shlex.quote(expect)} " if expect is not None else ""
    code, text, said = _run(host, SCRIPT.format(expect=told, seconds=seconds, level=shlex.quote(level)))
    if code == 124:
        raise NoSnapshot(f"rig check did not end within {seconds:.0f} s")
    if code not in JUDGED or not text.strip():
        about = "" if code in (NO_RIG, NO_PLACE) else f"rig check gave no snapshot (exit code {code}): "
        raise NoSnapshot(about + _last(said))
    try:
        return read_snapshot(text, "its snapshot")
    except (SnapshotError, RecursionError) as error:
        raise NoSnapshot(str(error)) from None


def _run(host: Any, script: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error. NoSnapshot where the host cannot be reached: each backend of
    testinfra has errors of its own for that, and that of ssh holds what ssh said."""
    try:
        done = host.run(script)
        return done.rc, done.stdout, done.stderr
    except Exception as error:
        said = getattr(error.args[0], "stderr", None) if error.args else None
        raise NoSnapshot(f"it cannot be reached: {_last(said or str(error) or type(error).__name__)}") from None


def _last(said: str) -> str:
    """The last line of what a program said, which has its error; no control characters."""
    return flat((said.strip().splitlines() or ["nothing was said"])[-1])

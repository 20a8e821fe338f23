"""A snapshot of a host that testinfra reaches (docker, ssh, ...): `rig check` looks there, we read what it saved."""

import shlex
from typing import Any

from rig.snapshot import Snapshot, SnapshotError, read_snapshot

JUDGED = (0, 1, 2)  # rig check: pass, fail, could not judge
NO_RIG, NO_PLACE = 127, 73  # what SCRIPT ends with before rig starts; it says why itself
# Into a file of its own and then out: what rig prints and what a login shell adds stays apart. /dev/shm can be written
# where the root file system cannot. `timeout`, since neither testinfra nor ssh ends a command that hangs.
SCRIPT = """
command -v rig >/dev/null || {{ echo "no command rig on its PATH ($PATH)" >&2; exit 127; }}
for at in "${{TMPDIR:-/tmp}}" /dev/shm; do folder=$(mktemp -d "$at/rig-XXXXXX" 2>/dev/null) && break; done
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
    done = host.run(SCRIPT.format(expect=told, seconds=seconds, level=shlex.quote(level)))
    if done.rc == 124:
        raise NoSnapshot(f"rig check did not end within {seconds:.0f} s")
    if done.rc not in JUDGED or not done.stdout.strip():
        said = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
        about = "" if done.rc in (NO_RIG, NO_PLACE) else f"rig check gave no snapshot (exit code {done.rc}): "
        raise NoSnapshot(about + said)
    try:
        return read_snapshot(done.stdout, "its snapshot")
    except SnapshotError as error:
        raise NoSnapshot(str(error)) from None

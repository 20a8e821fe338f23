"""The probe programs: what files cannot say, measured by children with a deadline (checks/probes/).

A probe prints JSON objects, one a line, as soon as each is known; they are merged into one (lists are joined), so that
one that never ends has still told what it knew. It ends with 0 when it could do its work, whatever it found.
"""

from checks import Need
from rig.lean import NamedTuple


class ProbeProgram(NamedTuple):
    """A program in checks/probes. `at`: the first level that runs it; `needs`: what must be there; `driver`: it may
    touch the NVIDIA driver, so nothing of the kind is started after one that never ended; `alone`: it measures rates,
    so nothing may run beside it; `python`: "user" for the environment with torch, "rig" for the system's."""

    name: str
    program: str
    at: str
    timeout_s: float
    needs: tuple[Need, ...] = ()
    driver: bool = False
    alone: bool = False
    python: str = "user"
    args: tuple[str, ...] = ()


PROBES: tuple[ProbeProgram, ...] = ()

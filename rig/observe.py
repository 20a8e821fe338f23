"""Root -> Host and Image: what checks ask for beyond the boot. Joins detectors that know nothing of one another."""

from rig.detect import processes, storage, system
from rig.host import Host
from rig.lean import Mapping
from rig.machine import Machine
from rig.root import Root


def observe_host(root: Root, machine: Machine, environ: Mapping[str, str], *, ask_driver: bool = True) -> Host:
    """The host beyond rig.machine. Never fails; asks the driver in a child with a deadline, beside the reading."""
    asked, clock = storage.start(root, environ), system.start_clock(root)
    host = Host()
    host = host._replace(**system.read_system(root, clock)._asdict(), **storage.read_storage(root, asked)._asdict())
    return host._replace(stuck=processes.read_stuck(root, host.uptime_s))

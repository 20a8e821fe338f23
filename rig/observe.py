"""Root -> Host and Image: what checks ask for beyond the boot. Joins detectors that know nothing of one another."""

from rig.detect import gpu_health, processes, storage, system
from rig.host import Host
from rig.lean import Mapping
from rig.machine import Machine
from rig.root import Root


def observe_host(root: Root, machine: Machine, environ: Mapping[str, str], *, ask_driver: bool = True) -> Host:
    """The host beyond rig.machine. Never fails; asks the driver in a child with a deadline, beside the reading."""
    health = gpu_health.start(root) if ask_driver and gpu_health.asked_for(machine) else None
    asked, clock = storage.start(root, environ), system.start_clock(root)
    host = Host()
    host = host._replace(**system.read_system(root, clock)._asdict(), **storage.read_storage(root, asked)._asdict())
    host = host._replace(stuck=processes.read_stuck(root, host.uptime_s), **gpu_health.read_around(root)._asdict())
    told = gpu_health.read_health(machine, health)
    return host._replace(gpus=told.gpus, nvml=told.state, nvml_error=told.error, opens=told.nodes)

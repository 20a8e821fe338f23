"""Root -> Host and Image: what checks ask for beyond the boot. Joins detectors that know nothing of one another."""

import time

from rig.detect import (
    gpu_health,
    image_files,
    image_libraries,
    kernel_log,
    pci_links,
    processes,
    rdma_counters,
    storage,
    system,
    topology_file,
)
from rig.host import Host
from rig.image import Image
from rig.lean import Callable, Mapping
from rig.machine import Machine
from rig.root import Root


def observe(root: Root, machine: Machine, environ: Mapping[str, str], until: float | None = None) -> tuple[Host, Image]:
    """Host and image, their children beside one another, so that one that hangs does not delay the others. `until`
    (monotonic seconds): what takes longer is left out. Never fails."""
    image = start_image(root, environ)
    return observe_host(root, machine, environ, until), image()


def observe_host(root: Root, machine: Machine, environ: Mapping[str, str], until: float | None = None) -> Host:
    """The host beyond rig.machine. Never fails; asks the driver in a child with a deadline, beside the reading."""
    health = gpu_health.start(root) if gpu_health.asked_for(machine) else None
    asked, clock = storage.start(root, environ), system.start_clock(root)
    host = Host()
    host = host._replace(**system.read_system(root, clock)._asdict(), **storage.read_storage(root, asked)._asdict())
    host = host._replace(**gpu_health.read_around(root, machine)._asdict())
    if until is None or time.monotonic() + sum(processes.PAUSES_S) < until:
        host = host._replace(stuck=processes.read_stuck(root, host.uptime_s))
    host = host._replace(kernel_log=kernel_log.read_kernel_log(root))
    devices = (*(gpu.bus_id for gpu in machine.gpus), *(hca.bus_id for hca in machine.hcas))
    host = host._replace(links=pci_links.read_links(root, devices))
    users, held = rdma_counters.read_peermem(root)
    host = host._replace(ports=rdma_counters.read_ports(root, machine.hcas), peermem_users=users, peermem_holders=held)
    path, buses = topology_file.read_topology_file(root, environ.get("NCCL_TOPO_FILE"))
    host = host._replace(topology_file=path, topology_buses=buses)
    told = gpu_health.read_health(machine, health)
    return host._replace(gpus=told.gpus, nvml=told.state, nvml_error=told.error, opens=told.nodes)


def start_image(root: Root, environ: Mapping[str, str]) -> Callable[[], Image]:
    """Start to look at the image that this process runs in; what is given back waits, and tells. `environ` is the
    user's environment: HOME, PATH, LD_LIBRARY_PATH, LD_PRELOAD, CUDA_HOME are looked at. Never fails."""
    files, libraries = image_files.start(root, environ), image_libraries.start(root, environ)
    return lambda: image_libraries.read_image_libraries(root, libraries, image_files.read_files(root, files))

"""What checks need: each a name for `--no-skip`, words for the skip, and a question to the snapshot.

Needs of one name are met together wherever that thing is: `--no-skip gpu` fails what is skipped for want of a GPU, and
nothing on a machine that has one.
"""

from checks import CannotTell, Need
from rig.snapshot import Snapshot


def bad_gpus(now: Snapshot) -> list[str]:
    """The words of RIG_BAD_GPUS: commas and white space stand between them."""
    return now.environ.get("RIG_BAD_GPUS", "").replace(",", " ").split()


def _gpu(now: Snapshot) -> bool:
    return bool(now.machine.gpus)


def _rdma(now: Snapshot) -> bool:
    return bool(now.machine.hcas)


def _in_time(now: Snapshot) -> None:
    """CannotTell where the driver had less time than it may need: then nothing that it did not tell is absent."""
    if "cut" in (now.machine.nvml, now.host.nvml if now.host is not None else None):
        gpu = now.machine.unresponsive_gpu
        where = f" while {gpu} was asked" if gpu else ""
        raise CannotTell(f"budget: the driver had given no answer{where} when the level's time for it was over")


def _nvml(now: Snapshot) -> bool:
    _in_time(now)
    return now.host is not None and bool(now.host.gpus)


def _gdr_loop(now: Snapshot) -> bool:
    """Whether the loop with GPU memory could be run. Any reason but the skip's leaves it unknown, and so does that one
    where GPUDirect was sold and NCCL has not proven it either."""
    probe = now.probes.get("gdr_loopback")
    if probe is None or probe.state != "absent":
        return True
    from checks.gpudirect import proven

    no_tool = "ib_write_bw" in probe.error or "without CUDA" in probe.error
    if not no_tool or (now.expected.gdr and not proven(now)):
        raise CannotTell(f"a loop with GPU memory: {probe.error or 'not run'}")
    return False


GPU = Need("gpu", "no GPU here", _gpu)
GPUS = Need("gpus", "fewer than two GPUs here", lambda now: len(now.machine.gpus) > 1)
RDMA = Need("rdma", "no RDMA device here", _rdma)
NVML = Need("nvml", "the NVIDIA driver tells nothing here", _nvml)
HOST = Need("host", "only the boot's facts are there", lambda now: now.host is not None)
IMAGE = Need("image", "the image's files were not read", lambda now: now.image is not None)
KERNEL_LOG = Need(
    "kernel-log",
    "the kernel's log cannot be read here",
    lambda now: now.host is not None and now.host.kernel_log is not None,
)
CONTAINER = Need("container", "not in a container", lambda now: now.machine.surroundings.container is not None)


def _rdma_expected(now: Snapshot) -> bool:
    return bool(now.machine.hcas) or now.expected.promises_hcas


def _gpu_expected(now: Snapshot) -> bool:
    return bool(now.machine.gpus) or now.expected.promises_gpus


def several_nodes(now: Snapshot) -> bool:
    """Whether the job runs on more than one node."""
    return any(line.name == "slots" and len(line.value) > 1 for line in now.plan.ranks)


# What a machine that was sold with GPUs or HCAs needs, also where they are not seen.
GPU_EXPECTED = Need("gpu", "no GPU here, and none is expected", _gpu_expected)
RDMA_EXPECTED = Need("rdma", "no RDMA device here, and none is expected", _rdma_expected)
NODES = Need("nodes", "a job of one node", several_nodes)
HOSTFILE = Need("hostfile", "this job has no hostfile", lambda now: bool(now.plan.hostfile))


def _roce(now: Snapshot) -> bool:
    """Ethernet ports beside an InfiniBand fabric are another network's."""
    from checks.rails import rails

    return any(one.port.link_layer == "Ethernet" for one in rails(now))


def _direct(now: Snapshot) -> bool:
    """GeForce and Titan never can (nor can memory that is the system's), so there is nothing to look for."""
    from rig.plan.gdr import gpu_supports

    return _rdma(now) and any(gpu_supports(now.machine, gpu) is not False for gpu in now.machine.gpus)


def _fabric_seen(now: Snapshot) -> bool:
    return now.machine.surroundings.virtual is None and bool(now.machine.pci)


ROCE = Need("roce", "no RoCE port carries a job's traffic here", _roce)
DIRECT = Need("gpudirect", "no RDMA device beside a GPU that supports GPUDirect RDMA", _direct)
BARE_METAL = Need("bare-metal", "a guest sees a PCI tree that its hypervisor made up", _fabric_seen)
SOLD_HCAS = Need(
    "sold-hcas", "nobody said how many HCAs belong here (RIG_EXPECT=hcas=8)", lambda now: bool(now.expected.hcas)
)
SOLD_RATE = Need(
    "sold-rate", "nobody said how fast the HCAs are (RIG_EXPECT=rate=400)", lambda now: bool(now.expected.rate)
)
SOLD_DIRECT = Need("sold-gdr", "GPUDirect RDMA was not promised (RIG_EXPECT=gdr=1)", lambda now: bool(now.expected.gdr))
BUS = Need("bus", "neither a GPU nor an RDMA device here", lambda now: bool(now.machine.gpus or now.machine.hcas))
GDR_LOOP = Need("gdr-loopback", "ib_write_bw is not here, or was built without CUDA as Debian's is", _gdr_loop)


def _torch(now: Snapshot) -> bool:
    """Unknown counts as there: a probe will say what it could not import."""
    packages = now.image.packages if now.image is not None else {}
    return not packages or "torch" in packages


TORCH = Need("torch", "no torch in the user's environment", _torch)


def _on_bus(now: Snapshot) -> bool:
    return _gpu_expected(now) or bool(now.machine.surroundings.gpus_on_bus)


def _asked(now: Snapshot) -> bool:
    _in_time(now)
    return now.machine.nvml is not None or (now.host is not None and now.host.nvml is not None)


ON_BUS = Need("gpu", "no NVIDIA GPU on the bus, and none is expected", _on_bus)
DRIVER = Need("driver", "the NVIDIA driver is not loaded", lambda now: now.machine.kernel.driver is not None)
ASKED = Need("driver-asked", "nobody had to ask the NVIDIA driver", _asked)
SOLD_GPUS = Need(
    "sold-gpus", "nobody said that GPUs belong here (RIG_EXPECT=gpus=8)", lambda now: now.expected.promises_gpus
)
SOLD_MODEL = Need(
    "sold-model", "nobody said which GPUs these are (RIG_EXPECT=model=H100)", lambda now: bool(now.expected.model)
)
SOLD_MEMORY = Need(
    "sold-memory",
    "nobody said how much memory a GPU has (RIG_EXPECT=memory_gb=80)",
    lambda now: bool(now.expected.memory_gb),
)
SOLD_NVLINKS = Need(
    "sold-nvlinks",
    "nobody said how many NVLinks a GPU has (RIG_EXPECT=nvlinks=18)",
    lambda now: bool(now.expected.nvlinks),
)


def _ecc(now: Snapshot) -> bool:
    from checks.health import has_hbm

    return any(gpu.ecc or has_hbm(gpu) for gpu in now.machine.gpus)


def _remapping(now: Snapshot) -> bool:
    """Ampere and newer put a spare row in a bad one's place."""
    from checks.health import remaps, told

    return any(remaps(gpu) for gpu in now.machine.gpus) or told(now, "remap_pending", "remap_failed")


def _retirement(now: Snapshot) -> bool:
    """GPUs before Ampere give up the whole page."""
    from checks.health import retires, told

    return any(retires(gpu) for gpu in now.machine.gpus) or told(now, "retired_pages", "retired_pending")


def _recovery(now: Snapshot) -> bool:
    from checks.health import told

    return told(now, "recovery_action")


# What consumer cards, older GPUs and older drivers do not have, so that it is missing without fault.
ECC = Need("ecc", "no GPU here has memory with ECC", _ecc)
REMAPPING = Need("row-remapping", "no GPU here remaps rows of its memory", _remapping)
RETIREMENT = Need("page-retirement", "no GPU here retires pages of its memory", _retirement)
RECOVERY = Need("recovery-action", "this driver does not tell what a GPU needs to recover", _recovery)

# What an image's content is compared with, and what has to be in it for that.
PACKAGES = Need(
    "packages", "no Python environment in /opt/venv", lambda now: now.image is not None and bool(now.image.packages)
)
PINS = Need("pins", "nobody said what the image should hold (no pins.toml beside rig)", lambda now: bool(now.pins))
NVCC = Need("nvcc", "no CUDA compiler in the image", lambda now: now.image is not None and now.image.nvcc is not None)
GSP = Need(
    "gsp",
    "no GPU here runs GSP firmware",
    lambda now: now.host is not None and any(one.gsp_firmware for one in now.host.gpus),
)
GPU_SEEN = Need("gpus-on-bus", "no NVIDIA GPU on the bus", lambda now: bool(now.machine.surroundings.gpus_on_bus))
GPU_NODES = Need(
    "gpu-nodes",
    "the GPUs are not reached through device nodes of the NVIDIA driver",
    lambda now: now.machine.surroundings.nvidia_nodes != (),
)
PERFTEST = Need(
    "rdma-write",
    "no active RDMA port with the usual queue pairs here (EFA has none)",
    lambda now: any(port.state == "ACTIVE" for hca in now.machine.hcas if hca.driver != "efa" for port in hca.ports),
)


def _sxm(now: Snapshot) -> bool:
    from checks.nvlink_boards import links_of

    return any(links_of(gpu, now) is not None for gpu in now.machine.gpus)


def _switched(now: Snapshot) -> bool:
    from checks.nvlink_boards import switches_of

    return bool(now.machine.gpus) and bool(switches_of(now) or any(gpu.nvswitch for gpu in now.machine.gpus))


def _fabric(now: Snapshot) -> bool:
    """A GPU that says so itself counts, for a guest sees no NVSwitch, and no link is up before the fabric is."""
    from checks.nvlink_boards import registers

    told = [one.fabric_state for one in now.host.gpus] if now.host is not None else []
    says = any(state not in (None, "not-supported") for state in told)
    return any(map(registers, now.machine.gpus)) and (_switched(now) or says)


def _bridges(now: Snapshot) -> bool:
    from checks.nvlink_boards import links_of

    return any(links_of(gpu, now, bridged=True) is not None for gpu in now.machine.gpus)


def _switch_board(now: Snapshot) -> bool:
    from checks.nvlink_boards import switches_expected, switches_of

    bare = now.machine.surroundings.virtual is None and bool(now.machine.pci)
    return switches_expected(now) is not None and (bare or bool(switches_of(now)))


SXM = Need("sxm", "no GPU here is on a board with NVLinks of its own", _sxm)
NVSWITCH = Need("nvswitch", "no NVSwitch joins these GPUs", _switched)
FABRIC = Need("fabric", "no GPU here joins an NVLink fabric", _fabric)
BRIDGES = Need("bridges", "no PCIe board here that can be bridged by NVLink", _bridges)
NVSWITCH_BOARD = Need("nvswitch-board", "no board of eight GPUs whose NVSwitches would be seen here", _switch_board)
MANAGER = Need(
    "fabric-manager",
    "the fabric manager cannot be seen from here",
    lambda now: now.host is not None and now.host.fabric_manager_version is not None,
)
EDAC = Need(
    "edac",
    "no memory controller counts errors here",
    lambda now: now.host is not None and now.host.edac_uncorrected is not None,
)
NVME = Need("nvme", "no NVMe drive is seen here", lambda now: now.host is not None and bool(now.host.nvme))
EXT4 = Need("ext4", "no ext4 file system is seen here", lambda now: now.host is not None and bool(now.host.fs_errors))


def _links(now: Snapshot) -> bool:
    """A function on a guest's root bus has no link; elsewhere a missing file is not known, and no reason to skip."""
    if now.host is None:
        return False
    return now.machine.surroundings.virtual is None or any(link.width is not None for link in now.host.links)


def _rails(now: Snapshot) -> bool:
    from checks.rails import rails

    return bool(rails(now))


LINKS = Need("pcie-links", "this guest's PCI devices have no link to look at", _links)
RAILS = Need("rails", "no port that carries a job's traffic is up here (EFA's are not asked)", _rails)
BAD_GPUS = Need("bad-gpus", "nobody keeps a list of bad GPUs (RIG_BAD_GPUS)", lambda now: bool(bad_gpus(now)))
NVLINKED = Need(
    "nvlink",
    "no NVLink is seen between GPUs here",
    lambda now: any(gpu.nvlinks and (gpu.nvswitch or gpu.nvlink_peers) for gpu in now.machine.gpus),
)

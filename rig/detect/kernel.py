"""What the running kernel offers to GPUDirect RDMA: peer memory, dma-buf, P2PDMA.

Sources: nvidia-peermem.c of the driver, MOFED's peer_mem.c (/sys/kernel/mm/memory_peers), drivers/pci/Kconfig
(PCI_P2PDMA), the first kernel releases in which each driver implements reg_user_mr_dmabuf.
"""

from rig.machine import Kernel
from rig.root import Root
from rig.text import line, whole

PEERS = "/sys/kernel/mm/memory_peers"
MODULES = "/sys/module"
# Modules whose presence decides a rule or explains a symptom.
MATTER = (
    "bnxt_re", "efa", "erdma", "gdrdrv", "ib_core", "ib_ipoib", "ib_umad", "ib_uverbs", "irdma", "mana_ib", "mlx4_ib",
    "mlx5_core", "mlx5_ib", "nouveau", "nv_peer_mem", "nvidia", "nvidia_drm", "nvidia_fs", "nvidia_modeset",
    "nvidia_peermem", "nvidia_uvm", "rdma_cm", "rdma_ucm", "rdma_rxe", "siw", "vfio_pci", "xpmem",
)  # fmt: skip
DMABUF_SINCE = {"mlx5_core": (5, 12), "efa": (5, 16)}  # IB core got dma-buf in 5.12
CONFIG_LIMIT = 1 << 20


def parse_release(text: str | None) -> tuple[int, int] | None:
    """(5, 15) of `5.15.0-1042-azure`."""
    major, _, rest = (line(text, 80) or "").partition(".")
    minor = ""
    for letter in rest:
        if letter not in "0123456789":
            break
        minor += letter
    first, second = whole(major, 2, 99), whole(minor, 0, 999)
    return None if first is None or second is None else (first, second)


def parse_cmdline(text: str | None) -> str | None:
    """The words of the kernel's command line that bear on PCI and the IOMMU; the rest may be private."""
    if text is None:
        return None
    return " ".join(word for word in text.split() if "iommu" in word or word.startswith(("pci=", "pcie_")))


def parse_config(text: str | None, name: str = "CONFIG_PCI_P2PDMA") -> bool | None:
    """Whether a kernel configuration sets `name`; None when text is no configuration."""
    if not text or "CONFIG_" not in text:
        return None
    return f"\n{name}=y" in "\n" + text


def read_p2pdma(root: Root, release: str | None) -> bool | None:
    """CONFIG_PCI_P2PDMA from /boot/config-RELEASE (hidden in most containers), else from /proc/config.gz."""
    told = parse_config(root.read(f"/boot/config-{release}")) if release else None
    if told is not None:
        return told
    packed = root.peek("/proc/config.gz", 0, CONFIG_LIMIT)
    if not packed:
        return None
    import zlib

    try:
        plain = zlib.decompressobj(31).decompress(packed, 4 * CONFIG_LIMIT)
    except zlib.error:
        return None
    return parse_config(plain.decode("ascii", "replace"))


def nic_dmabuf(release: str | None, drivers: tuple[str, ...], module_version: str | None) -> bool | None:
    """Whether the HCAs' driver registers dma-buf memory. None where it is not known for a driver, and for a driver that
    came outside the kernel (MOFED: its module has a version of its own), which may have it on older kernels."""
    number = parse_release(release)
    if number is None or not drivers:
        return None
    answers = set()
    for driver in drivers:
        since = DMABUF_SINCE.get(driver)
        if since is None:
            return None
        answers.add(number >= since)
    if answers == {False} and module_version is not None:
        return None
    return answers == {True}


def gpu_dmabuf(driver: str | None, open_modules: bool | None) -> bool | None:
    """Whether the GPU driver exports dma-buf: only the open kernel modules do, from 515 on. Source: NVIDIA's GPUDirect
    RDMA documentation."""
    major = whole((driver or "").partition(".")[0], 1, 9999)
    if open_modules is None or major is None:
        return None
    return open_modules and major >= 515


def read_kernel(
    root: Root, driver: tuple[str | None, bool | None], nics: tuple[str, ...], cmdline: str | None
) -> Kernel:
    """The gates. `driver` = the GPU driver's version and whether its modules are open; `nics` = drivers of the HCAs."""
    release = line(root.read("/proc/sys/kernel/osrelease"), 80)
    names = root.ls(MODULES)
    present = set(names)
    peers = root.ls(PEERS)
    module_version = line(root.read(f"{MODULES}/mlx5_core/version"), 40) if "mlx5_core" in nics else None
    return Kernel(
        release,
        driver[0],
        driver[1],
        tuple(name for name in MATTER if name in present) if names else None,
        tuple(peers) if peers or root.link(PEERS) is not None else None,
        (root.link(f"{MODULES}/nvidia_peermem/version") is not None) if names else None,
        read_p2pdma(root, release) if nics and driver[0] else None,
        nic_dmabuf(release, nics, module_version),
        gpu_dmabuf(*driver),
        None,
        cmdline,
    )

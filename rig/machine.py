"""The facts of one node, as detection found them. An unknown is None, never 0, "" or False.

Units stand in the names. Bus ids are `DDDD:BB:DD.F` in lower case, the key that ties GPUs, HCAs, NICs and switches.
"""

from rig.lean import NamedTuple


class PciDevice(NamedTuple):
    """One function in the PCI tree. `parent` is the bus id of the bridge above, None directly below a host bridge.
    `root` names the host bridge (`pci0000:17`). Source: /sys/bus/pci/devices/*."""

    bus_id: str
    parent: str | None = None
    root: str | None = None
    class_code: str | None = None  # six hex digits: 060400 PCI bridge, 030200 3D controller, 020700 InfiniBand
    vendor: str | None = None  # four hex digits
    device: str | None = None
    numa: int | None = None
    link_gts: float | None = None  # current speed, GT/s per lane
    link_width: int | None = None
    max_link_gts: float | None = None
    max_link_width: int | None = None
    acs_redirects: bool | None = None  # ACSCtl redirects peer traffic upstream; None: config space not readable
    subsystem_vendor: str | None = None  # four hex digits; tells a Broadcom switch in base mode
    subsystem_device: str | None = None


class PciPath(NamedTuple):
    """How far two devices are apart, in NCCL's own classes: LOC, PIX, PXB, PHB, SYS (nvidia-smi's NODE is PHB).
    None where the tree or the NUMA node is unknown."""

    a: str
    b: str
    kind: str | None


class Gpu(NamedTuple):
    """One NVIDIA GPU. Source: /proc/driver/nvidia/gpus, sysfs; NVML in a child for what files do not tell."""

    index: int  # type: ignore[assignment]
    bus_id: str | None = None
    model: str | None = None
    uuid: str | None = None
    numa: int | None = None
    memory_bytes: int | None = None
    capability: tuple[int, int] | None = None  # compute capability, (9, 0) = Hopper
    nvlinks: int | None = None  # active NVLink links
    nvlink_peers: tuple[str, ...] = ()  # bus ids of GPUs reached directly by NVLink; an NVSwitch reaches all
    p2p: bool | None = None  # the driver grants peer access to its neighbours
    mig: bool | None = None
    ecc: bool | None = None
    persistence: bool | None = None
    c2c: bool | None = None  # coherent CPU link (GH200, GB200)
    node: str | None = None  # /dev/nvidiaN; None: the minor number is unknown
    p2p_peers: tuple[str, ...] | None = None  # bus ids of GPUs to which the driver grants peer access
    nvswitch: bool | None = None  # its NVLinks end at an NVSwitch


class Gid(NamedTuple):
    """One entry of a port's GID table. Source: /sys/class/infiniband/D/ports/N/{gids,gid_attrs/{types,ndevs}}/I."""

    index: int  # type: ignore[assignment]
    gid: str  # eight groups of four hex digits, as sysfs prints it
    type: str | None = None  # "IB/RoCE v1" or "RoCE v2"; None: the kernel refused (EINVAL in a foreign namespace)
    netdev: str | None = None


class Port(NamedTuple):
    """One port of an HCA. Source: /sys/class/infiniband/D/ports/N/."""

    hca: str
    number: int
    state: str | None = None  # ACTIVE, DOWN, INIT, ARMED, ACTIVE_DEFER
    phys_state: str | None = None  # LinkUp, Disabled, Polling
    link_layer: str | None = None  # InfiniBand, Ethernet, Unknown
    rate_gbps: float | None = None
    rate_text: str | None = None
    lid: int | None = None
    gids: tuple[Gid, ...] = ()  # entries that are not all zero
    gids_refused: int = 0  # entries that this process may not read
    netdevs: tuple[str, ...] = ()  # network interfaces on this port

    @property
    def name(self) -> str:
        """As NCCL prints it: mlx5_0:1."""
        return f"{self.hca}:{self.number}"


class Hca(NamedTuple):
    """One RDMA device of any make. Source: /sys/class/infiniband/D, /dev/infiniband."""

    name: str
    bus_id: str | None = None  # None: not on PCI
    numa: int | None = None
    vendor: str | None = None
    device: str | None = None
    model: str | None = None  # board_id, hca_type or the driver's name
    driver: str | None = None  # mlx5_core, efa, irdma, bnxt_en, erdma, ...
    function: str | None = None  # "pf" or "vf"
    pf_bus_id: str | None = None  # of a VF: its physical function
    sys_image_guid: str | None = None  # equal text = same card
    uverbs: str | None = None  # /dev/infiniband/uverbsN; None: no node in this container
    opens: bool | None = None  # the node really opens
    ports: tuple[Port, ...] = ()


class NetDev(NamedTuple):
    """One network interface, in kernel order. Source: /sys/class/net, /proc/net."""

    name: str
    kind: str | None = None  # physical, bond, vlan, bridge, veth, ipoib, loopback, tunnel, virtual
    up: bool | None = None
    speed_mbps: int | None = None
    mtu: int | None = None
    ipv4: tuple[str, ...] = ()  # "192.0.2.1/24"
    ipv6: tuple[str, ...] = ()
    default_route: bool = False
    bus_id: str | None = None
    numa: int | None = None
    master: str | None = None  # the bond or bridge that it is a member of


class NumaNode(NamedTuple):
    """One NUMA node. Source: /sys/devices/system/node/nodeN."""

    index: int  # type: ignore[assignment]
    cpus: str | None = None  # "0-47,96-143"
    memory_bytes: int | None = None


class Cpu(NamedTuple):
    arch: str | None = None  # x86_64, aarch64
    vendor: str | None = None  # AMD, Intel, Zhaoxin, Arm, Nvidia
    model: str | None = None
    online: int | None = None


class Kernel(NamedTuple):
    """What the host's kernel offers to GPUDirect. Source: /sys/module, /sys/kernel/mm/memory_peers, /proc."""

    release: str | None = None
    driver: str | None = None  # NVIDIA driver version
    open_modules: bool | None = None  # open kernel modules: the condition for dma-buf
    modules: tuple[str, ...] | None = None  # names in /sys/module that matter here
    memory_peers: tuple[str, ...] | None = None  # registered peer-memory clients; None: the directory is missing
    nvidia_peermem: bool | None = None  # /sys/module/nvidia_peermem/version is there
    p2pdma: bool | None = None  # CONFIG_PCI_P2PDMA
    dmabuf_nic: bool | None = None  # the HCA's driver registers dma-buf memory
    dmabuf_gpu: bool | None = None
    iommu: str | None = None  # "off", "passthrough", "translated"
    cmdline: str | None = None


class Libraries(NamedTuple):
    """The user's libraries in this image, by file and never by hearsay."""

    nccl_path: str | None = None
    nccl_version: tuple[int, int, int] | None = None
    libibverbs: bool | None = None
    ib_providers: tuple[str, ...] | None = None  # mlx5, efa, ...
    net_plugins: tuple[str, ...] = ()  # libnccl-net*.so found
    cuda: tuple[int, int] | None = None  # CUDA runtime in the user's environment


class Limits(NamedTuple):
    """Limits of this process and its control group. `UNLIMITED` (-1) where the kernel says so."""

    memlock_bytes: int | None = None
    nofile: int | None = None
    shm_bytes: int | None = None  # size of /dev/shm
    shm_free_bytes: int | None = None
    cpus: float | None = None  # CPU quota or cpuset, whichever is smaller
    memory_bytes: int | None = None
    pids: int | None = None


UNLIMITED = -1


class Surroundings(NamedTuple):
    """Where the process runs."""

    container: str | None = None  # docker, podman, containerd, kubernetes, lxc; None: none seen
    virtual: str | None = None  # kvm, xen, hyperv, ...; None: no hypervisor seen
    cloud: str | None = None  # from DMI: aws, azure, gcp, oci, alibaba, ...
    instance: str | None = None
    hostname: str | None = None
    uid: int | None = None
    capabilities: tuple[str, ...] | None = None  # effective ones: CAP_IPC_LOCK, ...
    infiniband_nodes: tuple[str, ...] = ()  # names in /dev/infiniband
    product: str | None = None  # maker and product from DMI
    nvidia_nodes: tuple[str, ...] | None = None  # names nvidia* in /dev; None: /dev could not be listed
    gpus_on_bus: int | None = None  # NVIDIA GPUs on PCI, given to this container or not; None: PCI is not visible


class Machine(NamedTuple):
    """Everything that the plan and the checks may know about a node."""

    gpus: tuple[Gpu, ...] = ()
    hcas: tuple[Hca, ...] = ()
    netdevs: tuple[NetDev, ...] = ()
    pci: tuple[PciDevice, ...] = ()
    numa: tuple[NumaNode, ...] = ()
    cpu: Cpu = Cpu()
    kernel: Kernel = Kernel()
    libraries: Libraries = Libraries()
    limits: Limits = Limits()
    surroundings: Surroundings = Surroundings()
    # What became of the child that asked the driver: ok, absent, failed, unresponsive, cut (too little time was left).
    nvml: str | None = None
    nvml_error: str | None = None  # the driver's own words where it refused
    unresponsive_gpu: str | None = None  # bus id (or "GPU 3") that was being asked when the driver stopped answering
    gpus_denied: int | None = None  # GPUs that the driver has and keeps from this process: those of other jobs

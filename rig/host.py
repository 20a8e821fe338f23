"""What only checks ask of a node, beyond the facts of a boot: health, counters, storage, processes, the kernel's log.

Read by the detectors that rig.observe joins. An unknown is None. Units stand in the names.
"""

from rig.lean import NamedTuple


class KernelEvent(NamedTuple):
    """One line of the kernel's log that matters. `kind`: xid, sxid, pcie-limited, link-lost, aer, oom, nvrm, hung-task.
    Source: /dev/kmsg (printk format of Documentation/ABI/testing/dev-kmsg)."""

    kind: str
    text: str
    at_s: float | None = None  # seconds since boot
    code: int | None = None  # of an Xid or SXid
    bus_id: str | None = None
    subject: str | None = None  # interface or process; of aer: corrected, nonfatal, fatal


class GpuHealth(NamedTuple):
    """What NVML tells about the state of one GPU. Source: nvml.h, asked in a child with a deadline."""

    bus_id: str
    uuid: str | None = None
    vbios: str | None = None
    gsp_firmware: str | None = None
    ecc_pending: bool | None = None  # ECC mode after the next reset
    ecc_uncorrected_volatile: int | None = None  # since the driver was loaded
    ecc_corrected_volatile: int | None = None
    sram_uncorrected: int | None = None  # aggregate
    sram_threshold_exceeded: bool | None = None
    remapped_uncorrectable: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pages: int | None = None  # before Ampere
    retired_pending: bool | None = None
    inforom_valid: bool | None = None
    recovery_action: str | None = None  # one of rig.xid.ACTIONS, or `action N` of a newer driver
    clock_reasons: int | None = None  # bits of nvmlClocksEventReasons, as read before any probe ran
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    app_clock_mhz: int | None = None
    app_clock_default_mhz: int | None = None
    power_limit_mw: int | None = None  # enforced
    power_default_mw: int | None = None
    temperature_c: int | None = None
    slowdown_c: int | None = None
    pcie_gen_max: int | None = None  # what GPU and slot can do together
    pcie_width_max: int | None = None
    pcie_replays: int | None = None
    bar1_bytes: int | None = None
    compute_mode: str | None = None  # default, exclusive, prohibited
    memory_used_bytes: int | None = None
    processes: tuple[tuple[int, int], ...] | None = None  # (pid, bytes)
    nvlink_errors: int | None = None  # CRC, replay and recovery, all links
    fabric_state: str | None = None  # not-supported, not-started, in-progress, completed
    fabric_status: str | None = None  # success, or NVML's error words
    fabric_clique: int | None = None
    fabric_cluster: bool | None = None  # belongs to a multi-node NVLink cluster (its cluster uuid is not zero)


class PciLink(NamedTuple):
    """The link of one PCI function and its error counters. Source: /sys/bus/pci/devices/*."""

    bus_id: str
    gts: float | None = None
    width: int | None = None
    max_gts: float | None = None
    max_width: int | None = None
    aer_fatal: int | None = None
    aer_nonfatal: int | None = None
    aer_correctable: int | None = None
    upstream_max_gts: float | None = None  # of the port above
    upstream_max_width: int | None = None
    bar_bytes: int | None = None  # largest prefetchable BAR


class PortHealth(NamedTuple):
    """One RDMA port: counters (lifetime), RoCE settings. Source: /sys/class/infiniband/D/ports/N, /sys/class/net."""

    hca: str
    port: int
    counters: tuple[tuple[str, int], ...] = ()  # symbol_error, link_downed, port_rcv_errors, ...
    hw_counters: tuple[tuple[str, int], ...] = ()  # out_of_sequence, packet_seq_err, ...
    firmware: str | None = None
    active_mtu: int | None = None
    traffic_class: int | None = None
    ecn: tuple[bool | None, ...] = ()  # per priority, notification and reaction point both on
    carrier_changes: int | None = None  # of its interface


class Stuck(NamedTuple):
    """A process in state D, or a zombie. Only comm is read: cmdline can block. Source: /proc/PID/stat."""

    pid: int
    comm: str
    state: str
    seconds: float | None = None  # since it started


class Mount(NamedTuple):
    """A file system that training writes to. Source: statvfs(3), /proc/self/mountinfo."""

    path: str
    total_bytes: int | None = None
    free_bytes: int | None = None
    kind: str | None = None  # overlay, tmpfs, ext4, nfs4
    read_only: bool | None = None
    writable: bool | None = None  # by this user
    inodes_total: int | None = None
    inodes_free: int | None = None
    no_exec: bool | None = None  # programs and libraries in it cannot be run
    exists: bool | None = None  # where False, all else is told of the folder in which it would be made


class Raid(NamedTuple):
    """A software RAID. Source: /sys/block/mdN/md/{degraded,raid_disks} (Documentation/admin-guide/md.rst)."""

    name: str
    missing: int  # drives
    drives: int | None = None


class SshFile(NamedTuple):
    """A file or folder that ssh(1) or sshd(8) refuses when others may read or write it. Its content is not read."""

    path: str
    kind: str  # home, folder, key, authorized
    mode: int  # permission bits
    owner: int  # UID


class Host(NamedTuple):
    """The node, beyond rig.machine.Machine."""

    kernel_log: tuple[KernelEvent, ...] | None = None  # None: not readable (dmesg_restrict, a container)
    gpus: tuple[GpuHealth, ...] = ()
    nvml: str | None = None  # ok, absent, failed, unresponsive, cut (too little time was left)
    nvml_error: str | None = None
    links: tuple[PciLink, ...] = ()
    ports: tuple[PortHealth, ...] = ()
    stuck: tuple[Stuck, ...] | None = None
    mounts: tuple[Mount, ...] = ()
    uptime_s: float | None = None
    clock_synced: bool | None = None
    clock_error_us: int | None = None
    edac_uncorrected: int | None = None
    edac_corrected: int | None = None
    governors: tuple[str, ...] | None = None  # the different ones in use; empty: no cpufreq (a guest)
    hugepages_bytes: int | None = None  # reserved
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    peermem_users: int | None = None  # /sys/module/nvidia_peermem/refcnt
    peermem_holders: tuple[str, ...] | None = None  # modules that nvidia_peermem is tied to: ib_core, nvidia
    fabric_manager: bool | None = None  # a process nv-fabricmanager is seen; None: host processes are not visible
    fabric_manager_version: str | None = None
    modules: tuple[str, ...] | None = None  # names in /proc/modules
    seccomp: int | None = None  # 0 off, 2 filter
    stack_bytes: int | None = None
    core_bytes: int | None = None
    cpuset: str | None = None
    shared_network: bool | None = None  # the network namespace is the host's
    opens: tuple[tuple[str, bool], ...] = ()  # device nodes of /dev/nvidia*: exist, can be accessed (never opened)
    silent_mounts: tuple[str, ...] | None = None  # paths whose file system did not answer statvfs in time
    nvme: tuple[tuple[str, str | None], ...] | None = None  # (controller, state: live, dead, resetting, ...)
    raids: tuple[Raid, ...] | None = None
    fs_errors: tuple[tuple[str, int], ...] | None = None  # (ext4 device, errors that its superblock has counted)
    ssh_files: tuple[SshFile, ...] | None = None
    governor_drivers: tuple[str, ...] | None = None  # cpufreq drivers in use: intel_pstate, acpi-cpufreq, ...
    process_limit: int | None = None  # RLIMIT_NPROC; -1 unlimited
    overcommit: int | None = None  # vm.overcommit_memory
    mappings: int | None = None  # vm.max_map_count
    core_pattern: str | None = None
    topology_file: str | None = None  # the NCCL topology file that is named or found
    topology_buses: tuple[str, ...] | None = None  # bus ids in it; None: missing, or no topology file
    driver_libraries: tuple[str, ...] | None = None  # real paths of libcuda.so.1 and libnvidia-ml.so.1
    off_bus: tuple[str, ...] | None = None  # bus ids of GPUs whose PCI configuration reads as ones only

"""Which variables which NCCL reads. Source: NCCL_PARAM and getenv calls in NVIDIA/nccl at tags v2.18.1-1 to v2.30.3-1.

Setting a variable that the library does not read is harmless and useless, so it is refused with a line that says so.
"""

from rig.lean import Mapping
from rig.plan import Setting
from rig.plan.nccl_facts import Say, Version, say

# Read since 2.18.1 or earlier, without the prefix NCCL_.
_OLD = """
    ALGO BUFFSIZE CHECK_POINTERS COLLNET_ENABLE COMM_BLOCKING COMM_ID CREATE_THREAD_CONTEXT CROSS_NIC CUMEM_ENABLE
    DEBUG DEBUG_FILE DEBUG_SUBSYS DMABUF_ENABLE GDRCOPY_ENABLE GDR_FLUSH_DISABLE GRAPH_DUMP_FILE GRAPH_FILE
    GRAPH_MIXING_SUPPORT GRAPH_REGISTER HOSTID IB_ADAPTIVE_ROUTING IB_AR_THRESHOLD IB_DISABLE IB_GID_INDEX IB_HCA
    IB_MERGE_VFS IB_PCI_RELAXED_ORDERING IB_PKEY IB_QPS_PER_CONNECTION IB_RETRY_CNT IB_SL IB_SPLIT_DATA_ON_QPS IB_TC
    IB_TIMEOUT IGNORE_CPU_AFFINITY IGNORE_DISABLED_P2P LAUNCH_MODE LL128_BUFFSIZE LL_BUFFSIZE MAX_CTAS MAX_NCHANNELS
    MAX_NRINGS MIN_CTAS MIN_NCHANNELS MIN_NRINGS NET NET_DISABLE_INTRA NET_FORCE_FLUSH NET_GDR_LEVEL NET_GDR_READ
    NET_PLUGIN NET_SHARED_BUFFERS NET_SHARED_COMMS NCHANNELS_PER_NET_PEER NSOCKS_PERTHREAD NTHREADS NVB_DISABLE
    NVLS_ENABLE P2P_DIRECT_DISABLE P2P_DISABLE P2P_LEVEL P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE
    P2P_PXN_LEVEL P2P_READ_ENABLE P2P_USE_CUDA_MEMCPY PROTO PXN_DISABLE SET_STACK_SIZE SHM_DISABLE SOCKET_FAMILY
    SOCKET_IFNAME SOCKET_NTHREADS THREAD_THRESHOLDS TOPO_DUMP_FILE TOPO_FILE WORK_FIFO_DEPTH
"""
OLD = frozenset(f"NCCL_{name}" for name in _OLD.split())

# Name: (first version that reads it, first version that no longer does).
DATED: dict[str, tuple[Version, Version | None]] = {
    "NCCL_LOCAL_REGISTER": ((2, 19, 1), None),
    "NCCL_TUNER_PLUGIN": ((2, 19, 1), None),
    "NCCL_IB_MERGE_NICS": ((2, 20, 3), None),
    "NCCL_CONNECT_ROUND_MAX_PEERS": ((2, 19, 4), None),
    "NCCL_REPORT_CONNECT_PROGRESS": ((2, 19, 4), None),
    "NCCL_WARN_ENABLE_DEBUG_INFO": ((2, 19, 4), None),
    "NCCL_MNNVL": ((2, 20, 3), (2, 21, 5)),
    "NCCL_MNNVL_ENABLE": ((2, 21, 5), None),
    "NCCL_NVLSTREE_MAX_CHUNKSIZE": ((2, 20, 3), None),
    "NCCL_NVLS_CHUNKSIZE": ((2, 21, 5), None),
    "NCCL_IB_ADDR_FAMILY": ((2, 21, 5), None),
    "NCCL_IB_ADDR_RANGE": ((2, 21, 5), None),
    "NCCL_IB_ROCE_VERSION_NUM": ((2, 21, 5), None),
    "NCCL_IB_FIFO_TC": ((2, 22, 3), None),
    "NCCL_RUNTIME_CONNECT": ((2, 22, 3), None),
    "NCCL_CONF_FILE": ((2, 23, 4), None),
    "NCCL_OOB_NET_ENABLE": ((2, 23, 4), None),
    "NCCL_OOB_NET_IFNAME": ((2, 23, 4), None),
    "NCCL_IB_ECE_ENABLE": ((2, 23, 4), None),
    "NCCL_NET_MERGE_LEVEL": ((2, 24, 3), None),
    "NCCL_NET_FORCE_MERGE": ((2, 24, 3), None),
    "NCCL_NET_GDR_C2C": ((2, 26, 2), None),
}

GID_DETECTION = (2, 21, 5)  # first version that walks the GID table instead of taking index 0
GID_WALK_FIXED = (2, 26, 2)  # first version whose walk skips entries of other namespaces (nccl#1573)
PORT_FUSION = (2, 20, 3)
PEERMEM_MODULE_FILE = (2, 23, 4)  # first version that looks at /sys/module/nvidia_peermem/version


def reads(name: str, version: Version | None) -> bool | None:
    """Whether this NCCL reads the variable. None: the name is not known here. Version None: every version must read
    it."""
    if not name.startswith("NCCL_") or name in OLD:
        return True
    if name not in DATED:
        return None
    since, until = DATED[name]
    if version is None:
        return False
    return since <= version and (until is None or version < until)


def dotted(version: Version | None) -> str:
    return ".".join(str(part) for part in version) if version else "of unknown version"


def accepted(settings: tuple[Setting, ...], version: Version | None) -> tuple[tuple[Setting, ...], tuple[Say, ...]]:
    """The settings that this NCCL reads, and a line for each that it does not."""
    kept, said = [], []
    for one in settings:
        if reads(one.name, version) is False:
            text = f"{one.name} is not written: NCCL {dotted(version)} does not read it"
            said.append(
                say("NCCL_VARIABLE_UNREAD", text, domain="image", outcome="warn", subject=one.name, got=one.value)
            )
        else:
            kept.append(one)
    return tuple(kept), tuple(said)


def unread_by_user(user: Mapping[str, str], version: Version | None) -> tuple[Say, ...]:
    """Lines for the user's own variables that this NCCL does not read."""
    if version is None:
        return ()
    return tuple(
        say(
            "NCCL_VARIABLE_UNREAD",
            f"{name} has no effect: NCCL {dotted(version)} does not read it",
            domain="user",
            outcome="warn",
            subject=name,
            got=user[name],
            fix=f"Unset {name}, or use an NCCL that reads it",
        )
        for name in sorted(user)
        if reads(name, version) is False
    )


def hca_limit(version: Version | None) -> int:
    """How many HCAs NCCL keeps (MAX_IB_DEVS): 16 up to 2.18.3, 32 from 2.18.5."""
    return 16 if version is not None and version < (2, 18, 5) else 32

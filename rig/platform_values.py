"""What values a platform file may hold: each check answers what is wrong, or None."""

from rig.lean import Any, Callable
from rig.subnet import parse_address
from rig.text import is_bus_id

TEXT_LONGEST = 256
LIST_LONGEST = 4096
NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")

# What a provider may set for all its customers. Node-local values (NCCL_IB_HCA, NCCL_IB_GID_INDEX,
# NCCL_SOCKET_IFNAME) have keys of their own; anything that loads code or writes files is out.
_ALLOWED = """
    FI_EFA_FORK_SAFE FI_EFA_USE_DEVICE_RDMA FI_EFA_USE_HUGE_PAGE FI_PROVIDER NCCL_ALGO NCCL_BUFFSIZE
    NCCL_COLLNET_ENABLE NCCL_CROSS_NIC NCCL_CUMEM_ENABLE NCCL_DMABUF_ENABLE NCCL_GDRCOPY_ENABLE
    NCCL_GDR_FLUSH_DISABLE NCCL_IB_ADAPTIVE_ROUTING NCCL_IB_ADDR_FAMILY NCCL_IB_ADDR_RANGE NCCL_IB_AR_THRESHOLD
    NCCL_IB_DISABLE NCCL_IB_ECE_ENABLE NCCL_IB_FIFO_TC NCCL_IB_MERGE_NICS NCCL_IB_MERGE_VFS
    NCCL_IB_PCI_RELAXED_ORDERING NCCL_IB_PKEY NCCL_IB_QPS_PER_CONNECTION NCCL_IB_RETRY_CNT NCCL_IB_ROCE_VERSION_NUM
    NCCL_IB_SL NCCL_IB_SPLIT_DATA_ON_QPS NCCL_IB_TC NCCL_IB_TIMEOUT NCCL_IGNORE_CPU_AFFINITY NCCL_LOCAL_REGISTER
    NCCL_MAX_CTAS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS NCCL_MIN_NCHANNELS NCCL_MNNVL NCCL_MNNVL_ENABLE
    NCCL_NCHANNELS_PER_NET_PEER NCCL_NET NCCL_NET_GDR_C2C NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ NCCL_NET_MERGE_LEVEL
    NCCL_NSOCKS_PERTHREAD NCCL_NVLS_ENABLE NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_P2P_NET_CHUNKSIZE
    NCCL_P2P_NVL_CHUNKSIZE NCCL_P2P_PCI_CHUNKSIZE NCCL_P2P_PXN_LEVEL NCCL_PROTO NCCL_PXN_DISABLE NCCL_SHM_DISABLE
    NCCL_SOCKET_FAMILY NCCL_SOCKET_NTHREADS
"""
ENV_ALLOWED = frozenset(_ALLOWED.split())

Check = Callable[[Any], "str | None"]


def text_up_to(longest: int, letters: frozenset[str] | None = None) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, str):
            return "must be text"
        if not value or len(value) > longest:
            return f"must have 1 to {longest} characters"
        if not value.isascii() or not value.isprintable():
            return "must be printable ASCII"
        if letters is not None and not set(value) <= letters:
            return "may hold letters, digits and . _ - only"
        return None

    return check


def one_of(words: tuple[str, ...]) -> Check:
    def check(value: Any) -> str | None:
        return None if isinstance(value, str) and value in words else f"must be one of {', '.join(words)}"

    return check


def integer(low: int, high: int) -> Check:
    def check(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            return f"must be a whole number from {low} to {high}"
        return None

    return check


def number(low: float, high: float) -> Check:
    def check(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            return f"must be a number from {low:g} to {high:g}"
        return None

    return check


def boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def bus(value: Any) -> str | None:
    good = isinstance(value, str) and is_bus_id(value)
    return None if good else "must be a bus id like 0000:1a:00.0, in lower case"


def cidr(value: Any) -> str | None:
    """A subnet. Written out, so that NCCL_IB_ADDR_RANGE can carry it."""
    told = parse_address(value) if isinstance(value, str) and "/" in value and "%" not in value else None
    if told is None:
        return "must be a subnet like 198.51.100.0/24"
    return None if told.value == told.network else "must be a subnet like 198.51.100.0/24, with the host bits zero"


def absolute(value: Any) -> str | None:
    wrong = text_up_to(TEXT_LONGEST)(value)
    if wrong is not None:
        return wrong
    plain = value.startswith("/") and ".." not in value.split("/")
    return None if plain else "must be an absolute path without .."


def hexadecimal(value: Any) -> str | None:
    digits = value[2:] if isinstance(value, str) and value.startswith("0x") else ""
    good = 0 < len(digits) <= 4 and not digits.strip("0123456789abcdefABCDEF")
    return None if good else "must be a partition key like 0x8001"


def list_of(check: Check, most: int = LIST_LONGEST) -> Check:
    def all_of(value: Any) -> str | None:
        if not isinstance(value, list) or len(value) > most:
            return f"must be a list of at most {most}"
        return next((f"[{at}] {wrong}" for at, one in enumerate(value) if (wrong := check(one)) is not None), None)

    return all_of

"""Where the process runs: container, hypervisor, cloud, rights.

Sources: proc(5) (status, cgroup, mounts), include/uapi/linux/capability.h, Documentation/ABI/testing/sysfs-class-dmi
(drivers/firmware/dmi-id.c), systemd's container interface (/run/systemd/container), vendors' DMI texts.
"""

from rig.machine import Surroundings
from rig.root import Root
from rig.text import line, whole

DMI = "/sys/class/dmi/id/"
CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO",
    "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME",
    "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN",
    "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
)  # fmt: skip
# Word in a control group's or a mount's path -> runtime; the first match wins.
RUNTIMES = (
    ("kubepods", "kubernetes"),
    ("kubelet", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("containerd", "containerd"),
    ("crio", "cri-o"),
    ("lxc", "lxc"),
    ("slurm", None),  # a job's control group on a host is no container
)
# (part of sys_vendor, chassis_asset_tag or product_name) -> cloud
CLOUDS = (
    ("Amazon EC2", "aws"),
    ("7783-7084-3265-9085-8269-3286-77", "azure"),  # chassis tag of every Azure guest
    ("OracleCloud", "oci"),
    ("Google", "gcp"),
    ("Alibaba", "alibaba"),
    ("Tencent", "tencent"),
    ("Huawei Cloud", "huawei"),
    ("DigitalOcean", "digitalocean"),
    ("Hetzner", "hetzner"),
    ("Nebius", "nebius"),
    ("OpenStack", "openstack"),
)
HYPERVISORS = (
    ("Amazon EC2", "kvm"),
    ("Google", "kvm"),
    ("QEMU", "kvm"),
    ("KVM", "kvm"),
    ("Alibaba", "kvm"),
    ("OpenStack", "kvm"),
    ("Virtual Machine", "hyperv"),
    ("VMware", "vmware"),
    ("Xen", "xen"),
    ("innotek", "virtualbox"),
)


def parse_capabilities(mask: str | None) -> tuple[str, ...] | None:
    """Names of the bits in `CapEff: 00000000a80425fb`; bits that this list does not know are left out."""
    first = (line(mask, 32) or "").lower()
    if not first or first.strip("0123456789abcdef"):
        return None
    bits = int(first, 16)
    return tuple(f"CAP_{name}" for number, name in enumerate(CAPABILITIES) if bits >> number & 1)


def first_match(table: tuple[tuple[str, str | None], ...], texts: tuple[str | None, ...]) -> str | None:
    """The answer of the first row whose word is in any of the texts."""
    for word, answer in table:
        if any(word in text for text in texts if text):
            return answer
    return None


def root_is_overlay(mounts: str | None) -> bool:
    """Whether `/` is a container's layered file system, from /proc/self/mounts."""
    for entry in (mounts or "").splitlines():
        words = entry.split()
        if len(words) > 3 and words[1] == "/":
            return words[2] in ("overlay", "aufs", "fuse-overlayfs", "fuse.fuse-overlayfs")
    return False


def read_container(root: Root) -> str | None:
    """The container runtime; "other" for a container of an unknown one, None on a host."""
    if root.link("/var/run/secrets/kubernetes.io") is not None or root.link("/run/secrets/kubernetes.io") is not None:
        return "kubernetes"
    if root.link("/run/.containerenv") is not None:
        return "podman"
    marked = root.link("/.dockerenv") is not None
    told = line(root.read("/run/systemd/container"), 40)
    groups = first_match(RUNTIMES, (root.read("/proc/self/cgroup"),))
    if groups is not None:
        return groups
    if marked or told is not None:
        return told or "docker"
    return "other" if root_is_overlay(root.read("/proc/self/mounts")) else None


def read_dmi(root: Root) -> tuple[str | None, str | None, str | None]:
    """(maker, product, chassis tag); all None where DMI is hidden."""
    return (
        line(root.read(DMI + "sys_vendor"), 80),
        line(root.read(DMI + "product_name"), 80),
        line(root.read(DMI + "chassis_asset_tag"), 80),
    )


def read_virtual(root: Root, flag: bool | None, dmi: tuple[str | None, str | None, str | None]) -> str | None:
    """The hypervisor below: its name where something tells it, else "unknown" when only the CPU flag is set."""
    kind = line(root.read("/sys/hypervisor/type"), 20)
    if kind is not None:
        return kind
    if flag is False:
        return None  # bare metal instances carry a cloud's DMI texts too
    named = first_match(HYPERVISORS, dmi)
    return named if named is not None or not flag else "unknown"


def read_surroundings(
    root: Root, status: dict[str, str], flag: bool | None, nodes: tuple[str, ...] | None
) -> Surroundings:
    """Everything about the place. `status` = parsed /proc/self/status, `flag` = the CPU's hypervisor flag, `nodes` =
    NVIDIA's names in /dev."""
    dmi = read_dmi(root)
    cloud = first_match(CLOUDS, dmi)
    product = " ".join(text for text in dmi[:2] if text) or None
    uids = status.get("Uid", "").split()
    return Surroundings(
        read_container(root),
        read_virtual(root, flag, dmi),
        cloud,
        dmi[1] if cloud in ("aws", "alibaba") else None,
        line(root.read("/proc/sys/kernel/hostname"), 64),
        whole(uids[1], 0, (1 << 32) - 1) if len(uids) == 4 else None,
        parse_capabilities(status.get("CapEff")),
        tuple(root.ls("/dev/infiniband")),
        product,
        nodes,
    )

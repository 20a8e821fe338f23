"""NUMA nodes and the processor.

Sources: Documentation/ABI/stable/sysfs-devices-node, drivers/base/cpu.c (modalias), arch/x86/include/asm/{processor,
cpufeatures}.h, Documentation/ABI/testing/sysfs-devices-system-cpu (midr_el1).
"""

from rig.machine import Cpu, NumaNode
from rig.root import Root
from rig.text import count_of_list, line, whole

NODES = "/sys/devices/system/node/"
CPUS = "/sys/devices/system/cpu/"
X86_VENDORS = {0: "Intel", 2: "AMD", 5: "Zhaoxin", 9: "Hygon", 10: "Zhaoxin"}  # X86_VENDOR_*; Centaur's are Zhaoxin's
CPUINFO_VENDORS = {
    "GenuineIntel": "Intel",
    "AuthenticAMD": "AMD",
    "HygonGenuine": "Hygon",
    "CentaurHauls": "Zhaoxin",
    "  Shanghai  ": "Zhaoxin",
    "Shanghai": "Zhaoxin",
}
ARM_IMPLEMENTERS = {0x41: "Arm", 0x4E: "Nvidia", 0xC0: "Ampere"}
FEATURE_HYPERVISOR = "009F"  # X86_FEATURE_HYPERVISOR = 4*32 + 31


def parse_modalias(text: str | None) -> tuple[str | None, str | None, bool | None]:
    """(architecture, vendor, hypervisor flag) of `cpu:type:x86,ven0002fam0019mod0001:feature:,0000,...,009F,...`.

    /proc/cpuinfo tells the same, but up to kernel 5.17 opening it waits for every CPU to measure its clock (10 ms).
    """
    first = line(text, 8192)
    if first is None or not first.startswith("cpu:type:"):
        return None, None, None
    kind, _, features = first[9:].partition(":feature:")
    family, _, ids = kind.partition(",")
    if family == "x86":
        vendor = ids[3:7] if ids.startswith("ven") else ""
        number = int(vendor, 16) if len(vendor) == 4 and not vendor.strip("0123456789ABCDEFabcdef") else -1
        return "x86_64", X86_VENDORS.get(number), f",{FEATURE_HYPERVISOR}" in features
    return ("aarch64" if family == "aarch64" else None), None, None


def parse_cpuinfo(text: str | None) -> tuple[str | None, str | None, str | None, bool | None]:
    """(architecture, vendor, model, hypervisor flag) of the first processor in /proc/cpuinfo."""
    told: dict[str, str] = {}
    for entry in (text or "").splitlines():
        key, colon, value = entry.partition(":")
        if colon:
            told.setdefault(key.strip(), value.strip())
    if "vendor_id" in told:
        flags = told.get("flags")
        virtual = None if flags is None else "hypervisor" in flags.split()
        vendor = CPUINFO_VENDORS.get(told["vendor_id"])
        return "x86_64", vendor, line(told.get("model name")), virtual
    if "CPU implementer" in told:
        code = told["CPU implementer"].lower().removeprefix("0x")
        number = int(code, 16) if code and len(code) < 5 and not code.strip("0123456789abcdef") else -1
        return "aarch64", ARM_IMPLEMENTERS.get(number), None, None
    return None, None, None, None


def parse_midr(text: str | None) -> str | None:
    """Who made an Arm core: bits 31..24 of MIDR_EL1, printed as `0x00000000410fd4f0`."""
    first = (line(text, 24) or "").lower().removeprefix("0x")
    if not first or first.strip("0123456789abcdef"):
        return None
    return ARM_IMPLEMENTERS.get(int(first, 16) >> 24 & 0xFF)


def parse_meminfo(text: str | None) -> int | None:
    """Bytes behind `MemTotal:` in kB, of /proc/meminfo or a node's meminfo (`Node 0 MemTotal: 528279508 kB`)."""
    for entry in (text or "").splitlines():
        _, found, rest = entry.partition("MemTotal:")
        if found:
            words = rest.split()
            kilobytes = whole(words[0], 1, 1 << 45) if len(words) == 2 and words[1] == "kB" else None
            return None if kilobytes is None else kilobytes * 1024
    return None


def read_cpu(root: Root) -> tuple[Cpu, bool | None]:
    """The processor, and whether it says that a hypervisor is below (None: it does not tell)."""
    arch, vendor, virtual = parse_modalias(root.read(CPUS + "modalias"))
    model = None
    if arch is None:
        arch, vendor, model, virtual = parse_cpuinfo(root.read("/proc/cpuinfo"))
    if arch == "aarch64" and vendor is None:
        vendor = parse_midr(root.read(CPUS + "cpu0/regs/identification/midr_el1"))
    return Cpu(arch, vendor, model, count_of_list(root.read(CPUS + "online"))), virtual


def read_nodes(root: Root) -> tuple[NumaNode, ...]:
    """NUMA nodes by number; none where the kernel has none or sysfs is hidden."""
    numbers = [whole(name[4:], 0, 1023) for name in root.ls(NODES[:-1]) if name.startswith("node")]
    found = []
    for number in sorted(number for number in numbers if number is not None):
        cpus = line(root.read(f"{NODES}node{number}/cpulist"), 4096)
        if cpus is not None and count_of_list(cpus) is None:
            cpus = None
        found.append(NumaNode(number, cpus, parse_meminfo(root.read(f"{NODES}node{number}/meminfo"))))
    return tuple(found)

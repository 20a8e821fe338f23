"""Lays a machine out on paper: a Tree with what sysfs, procfs and /dev would show. For make_trees.py and tests."""

from __future__ import annotations

from rig.captured import Tree
from rig.root import IPV4_FILE, Collected, Space

ZERO = "0000:" * 7 + "0000"
GIB = 1 << 30
RATES = {400: "400 Gb/sec (4X NDR)", 200: "200 Gb/sec (4X HDR)", 100: "100 Gb/sec (4X EDR)", 25: "25 Gb/sec (1X EDR)"}
MODALIAS = {
    "Intel": "cpu:type:x86,ven0000fam0006mod008F:feature:,0000,0001,0002,0003",
    "AMD": "cpu:type:x86,ven0002fam0017mod0031:feature:,0000,0001,0002,0003",
}


class Paper:
    """One machine. `bridge`, `gpu`, `hca` and `netdev` take a sysfs folder and give the one that they made."""

    def __init__(self, *, vendor: str = "Intel", virtual: bool = False) -> None:
        self.tree = Tree()
        self.addresses: list[str] = []
        self.inet6: list[str] = []
        self.routes: list[str] = []
        self.nvml: list[list[str]] = []
        self.buses: list[tuple[str, str, str]] = []
        self.interfaces = self.verbs = 0
        self.file("/sys/devices/system/cpu/modalias", MODALIAS[vendor] + (",009F" if virtual else ""))
        self.names("/dev", "null")

    def file(self, path: str, *lines: str) -> None:
        above, _, name = path.rpartition("/")
        self.tree.folder(above)[name] = None
        self.tree.texts[path] = "".join(line + "\n" for line in lines)

    def files(self, folder: str, **texts: object) -> None:
        for name, text in texts.items():
            self.file(f"{folder}/{name}", str(text))

    def refuse(self, path: str) -> None:
        above, _, name = path.rpartition("/")
        self.tree.folder(above)[name] = None
        self.tree.refused[path] = None

    def link(self, path: str, target: str) -> None:
        above, _, name = path.rpartition("/")
        self.tree.folder(above)[name] = None
        self.tree.links[path] = target

    def names(self, folder: str, *names: str) -> None:
        self.tree.folder(folder).update(dict.fromkeys(names))

    # --- PCI

    def pci(
        self,
        above: str,
        bus: str,
        *,
        code: str,
        ids: str,
        numa: int = -1,
        link: str = "16.0 16",
    ) -> str:
        """A function `ids` (`10de:2330`, with subsystem `1000:c010:1000:a096`) with a link of `speed width`."""
        folder = f"{above}/{bus}"
        vendor, device, *subsystem = ids.split(":")
        speed, width = link.split()
        known = [
            f"PCI_ID={vendor}:{device}".upper(),
            *(["PCI_SUBSYS_ID=" + ":".join(subsystem).upper()] if subsystem else []),
        ]
        self.file(f"{folder}/uevent", f"PCI_CLASS={code.lstrip('0').upper()}", *known, f"PCI_SLOT_NAME={bus}")
        self.files(folder, vendor=f"0x{vendor}", device=f"0x{device}", numa_node=numa)
        self.files(folder, max_link_speed=f"{speed} GT/s PCIe", max_link_width=width)
        self.files(folder, current_link_speed=f"{speed} GT/s PCIe", current_link_width=width)
        self.link(f"/sys/bus/pci/devices/{bus}", folder)
        self.buses.append((bus, vendor, device))
        return folder

    def bridge(self, above: str, bus: str, *, ids: str = "8086:352a", numa: int = -1, link: str = "32.0 16") -> str:
        return self.pci(above, bus, code="060400", ids=ids, numa=numa, link=link)

    def switch(
        self, above: str, up: str, downs: tuple[str, ...], *, ids: str = "1000:c030", numa: int = -1
    ) -> list[str]:
        """A switch: its upstream bridge and the downstream bridges below; gives the latter's folders."""
        top = self.bridge(above, up, ids=ids, numa=numa)
        return [self.bridge(top, down, ids=ids, numa=numa) for down in downs]

    def iommu(self, group: str, *units: str) -> None:
        """Units of the IOMMU and the type of every function's group."""
        self.names("/sys/class/iommu", *units)
        for bus, _, _ in self.buses:
            folder = self.tree.links.get(f"/sys/bus/pci/devices/{bus}")
            if folder is not None:
                self.file(f"{folder}/iommu_group/type", group)

    def filler(self, count: int) -> None:
        """Devices that every server has and nobody asks about."""
        for number in range(count):
            bus = f"0000:{0xF0 + number // 32:02x}:{number % 32:02x}.0"
            self.names("/sys/bus/pci/devices", bus)
            self.buses.append((bus, "8086", "3450"))

    # --- GPUs

    def gpu(
        self, above: str, bus: str, model: str, *, device: str, numa: int = -1, memory: int = 80, link: str = "32.0 16"
    ) -> None:
        """A GPU with its node and what the driver says in files; `nvml_gpu` adds what it says when asked."""
        minor = len([name for name in self.tree.folder("/dev") if name[6:].isdigit()])
        self.pci(above, bus, code="030200", ids=f"10de:{device}", numa=numa, link=link)
        uuid = f"GPU-00000000-0000-4000-8000-{minor + 1:012x}"
        self.file(
            f"/proc/driver/nvidia/gpus/{bus}/information",
            f"Model: \t\t {model}",
            "IRQ:   \t\t 255",
            f"GPU UUID: \t {uuid}",
            "Video BIOS: \t 96.00.74.00.01",
            "Bus Type: \t PCIe",
            f"Bus Location: \t {bus}",
            f"Device Minor: \t {minor}",
        )
        self.names("/dev", f"nvidia{minor}", "nvidiactl", "nvidia-uvm")
        facts = {"bus_id": f"00000000:{bus[5:].upper()}", "name": model, "uuid": uuid, "memory": str(memory * GIB)}
        self.nvml.append([f"{minor} {key} {value}" for key, value in facts.items()])

    def driver(self, version: str = "535.129.03", *, open_modules: bool = False) -> None:
        flavour = "Open Kernel Module for x86_64" if open_modules else "x86_64 Kernel Module"
        self.file(
            "/proc/driver/nvidia/version",
            f"NVRM version: NVIDIA UNIX {flavour}  {version}  Thu Oct 19 18:56:32 UTC 2023",
        )
        self.names("/sys/module", "nvidia", "nvidia_uvm")

    def answer(self, *, capability: str, links: int, p2p: int, version: str = "535.129.03", state: str = "ok") -> None:
        """The driver's answer. `links` NVLinks end at a switch; `p2p` is the NVML_P2P_STATUS of every pair."""
        lines = [f"driver {version}"]
        buses = [facts[0].rpartition(" ")[2].lower() for facts in self.nvml]
        for index, facts in enumerate(self.nvml):
            lines += [
                f"asking {index}",
                *facts,
                f"{index} capability {capability}",
                f"{index} mig 0",
                f"{index} persistence 1",
            ]
            lines += [f"{index} nvlinks {links}", *[f"{index} nvlink {links} switch"] * bool(links)]
        for index, bus in enumerate(buses):
            lines += [f"{index} p2p {other} {p2p} {p2p}" for other in buses if other != bus]
        self.tree.programs[("rig-nvml",)] = Collected(state, "".join(line + "\n" for line in [*lines, "end"]))

    # --- RDMA

    def hca(
        self, pci: str, name: str, *, layer: str = "InfiniBand", rate: int = 400, state: str = "4: ACTIVE",
        gids: tuple[str, ...] = (),
        driver: str = "mlx5_core", guid: int = 0, opens: bool | None = True, table: int = 256, kind: str = "MT4129",
    ) -> str:  # fmt: skip
        """An RDMA device with one port. `gids` are `INDEX GID TYPE NETDEV`; `?` for TYPE is refused by the kernel."""
        folder = f"{pci}/infiniband/{name}"
        self.link(f"/sys/class/infiniband/{name}", folder)
        self.link(f"{folder}/device", pci)
        self.link(f"{pci}/driver", f"/sys/bus/pci/drivers/{driver}")
        self.tree.folder(f"/sys/bus/pci/drivers/{driver}")
        self.files(
            folder, hca_type=kind, sys_image_guid=f"0200:00ff:fe00:{guid:04x}" if guid else "0000:0000:0000:0000"
        )
        port = f"{folder}/ports/1"
        up = state.endswith("ACTIVE")
        lid = f"0x{0x10 + self.verbs:x}" if layer == "InfiniBand" and up else "0x0"
        self.files(port, state=state, phys_state="5: LinkUp" if up else "3: Disabled", link_layer=layer, lid=lid)
        self.file(f"{port}/rate", RATES.get(rate, f"{rate} Gb/sec (4X)") if up else "10 Gb/sec (4X SDR)")
        for index in range(table):
            self.file(f"{port}/gids/{index}", ZERO)
        for entry in gids:
            index, gid, kind_of, netdev = entry.split(",")
            self.file(f"{port}/gids/{index}", gid)
            for attribute, value in (("types", kind_of), ("ndevs", netdev)):
                if value == "?":
                    self.refuse(f"{port}/gid_attrs/{attribute}/{index}")
                else:
                    self.file(f"{port}/gid_attrs/{attribute}/{index}", value)
        node = f"uverbs{self.verbs}"
        self.verbs += 1
        self.file(f"/sys/class/infiniband_verbs/{node}/ibdev", name)
        if opens is not None:
            self.names("/dev/infiniband", node, "rdma_cm")
            self.tree.opens[f"/dev/infiniband/{node}"] = opens
        return folder

    # --- network

    def netdev(
        self, name: str, *, above: str = "/sys/devices/virtual", devtype: str = "", arp: int = 1, up: bool = True,
        speed: int = -1, mtu: int = 1500, ipv4: str = "", ipv6: str = "", default: bool = False, master: str = "",
        lower: int | None = None,
    ) -> None:  # fmt: skip
        """An interface; the order of calls is the order of ifindex. `above` is its PCI (or virtio) folder."""
        self.interfaces += 1
        folder = f"{above}/net/{name}"
        self.link(f"/sys/class/net/{name}", folder)
        kind = [f"DEVTYPE={devtype}"] if devtype else []
        self.file(f"{folder}/uevent", *kind, f"INTERFACE={name}", f"IFINDEX={self.interfaces}")
        state = "unknown" if name == "lo" else "up" if up else "down"
        self.files(folder, type=arp, operstate=state, mtu=mtu, iflink=self.interfaces if lower is None else lower)
        self.files(folder, flags="0x9" if name == "lo" else "0x1003" if up else "0x1002")
        if up:
            self.files(folder, carrier=1, speed=speed)
        else:
            self.refuse(f"{folder}/speed")
        if "/virtual" not in above:
            self.link(f"{folder}/device", above)
        if master:
            self.link(f"{folder}/master", f"/sys/devices/virtual/net/{master}")
        self.addresses += [f"{name} {ipv4}"] if ipv4 else []
        self.inet6 += [f"{ipv6} {self.interfaces:02x} {'80' if name == 'lo' else '40'} 20 80 {name}"] if ipv6 else []
        self.routes += [f"{name}\t00000000\t00000000\t0003\t0\t0\t100\t00000000\t0\t0\t0"] if default else []

    def loopback(self) -> None:
        self.netdev("lo", arp=772, mtu=65536, ipv4="127.0.0.1/8", ipv6="0" * 31 + "1")

    # --- the rest

    def nodes(self, cpus: tuple[str, ...], memory_gib: int) -> None:
        """NUMA nodes with their CPU lists and equal shares of memory."""
        for number, listed in enumerate(cpus):
            folder = f"/sys/devices/system/node/node{number}"
            self.file(f"{folder}/cpulist", listed)
            self.file(f"{folder}/meminfo", f"Node {number} MemTotal:       {memory_gib * (1 << 20) // len(cpus)} kB")

    def kernel(self, release: str, *modules: str, cmdline: str = "") -> None:
        self.file("/proc/sys/kernel/osrelease", release)
        self.file("/proc/sys/kernel/hostname", "node-1")
        self.file("/proc/cmdline", cmdline)
        self.names("/sys/module", *modules)

    def process(
        self, *, memlock: str, cpus: str, caps: str, shm_gib: float, cgroup: str = "0::/", nofile: int = 1048576
    ) -> None:
        """Limits and rights of our process; `caps` is CapEff."""
        self.file(
            "/proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units",
            "Max stack size            8388608              unlimited            bytes",
            f"Max open files            {nofile:<20} {nofile:<20} files",
            f"Max locked memory         {memlock:<20} {memlock:<20} bytes",
        )
        self.file(
            "/proc/self/status", "Uid:\t0\t0\t0\t0", f"CapEff:\t{caps}", "Seccomp:\t2", f"Cpus_allowed_list:\t{cpus}"
        )
        self.file("/proc/self/cgroup", cgroup)
        self.file("/sys/devices/system/cpu/online", cpus)
        self.tree.folder("/dev/shm")
        self.tree.spaces["/dev/shm"] = Space(int(shm_gib * GIB), int(shm_gib * GIB))

    def cgroup(self, *, cpu: str = "max 100000", memory: str = "max", pids: str = "max") -> None:
        folder = "/sys/fs/cgroup"
        self.file(f"{folder}/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc")
        for name, text in (("cpu.max", cpu), ("memory.max", memory), ("pids.max", pids)):
            self.file(f"{folder}/{name}", text)

    def dmi(self, vendor: str, product: str, tag: str = "tag") -> None:
        self.files("/sys/class/dmi/id", sys_vendor=vendor, product_name=product, chassis_asset_tag=tag)

    def image(
        self, nccl: str = "2.21.5", *, providers: tuple[str, ...] = ("mlx5", "efa", "irdma"), plugin: str = ""
    ) -> None:
        """The libraries of our own image."""
        packages = "/opt/venv/lib/python3.11/site-packages"
        self.names(f"{packages}/nvidia/nccl/lib", "libnccl.so.2")
        self.names(packages, f"nvidia_nccl_cu12-{nccl}.dist-info", "nvidia_cuda_runtime_cu12-12.1.105.dist-info")
        folder = "/usr/lib/x86_64-linux-gnu"
        self.names(folder, "libibverbs.so.1")
        self.names(f"{folder}/libibverbs", *(f"lib{name}-rdmav34.so" for name in providers))
        if plugin:
            self.names(plugin, "libnccl-net.so")

    def done(self) -> Tree:
        """The finished tree."""
        if self.buses:
            slots = [bus[5:].replace(".", ":").split(":") for bus, _, _ in self.buses]
            self.file(
                "/proc/bus/pci/devices",
                *(
                    f"{int(slot[0], 16):02x}{int(slot[1], 16) << 3 | int(slot[2]):02x}\t{vendor}{device}"
                    for slot, (_, vendor, device) in zip(slots, self.buses, strict=True)
                ),
            )
        self.names("/sys/class", "net", "pci_bus", "dmi", "iommu")
        self.tree.folder("/sys/class/iommu")
        self.file(IPV4_FILE, *self.addresses)
        self.file("/proc/net/if_inet6", *self.inet6)
        header = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT"
        self.file("/proc/net/route", header, *self.routes)
        return self.tree

"""The kernel files of a case: devices, ports, interfaces, limits, as sysfs and procfs show them."""

import zlib
from collections.abc import Mapping
from typing import Any

from rig.captured import Tree
from rig.root import Collected, Space
from tests.case_pci import Places

Case = Mapping[str, Any]

ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
DEFAULT_CAPABILITIES = 0xA80425FB  # what Docker and Kubernetes grant: no CAP_IPC_LOCK
DEFAULT_MEMLOCK = 8 << 20  # systemd's own limit for services
IPC_LOCK_BIT = 1 << 14
PROVIDERS = ["mlx5", "mlx4", "efa", "irdma", "bnxt_re", "erdma", "ipathverbs", "hfi1verbs", "qedr", "rxe", "siw"]


def put(tree: Tree, path: str, text: object) -> None:
    """A file of one line, with its folders."""
    folder, _, name = path.rpartition("/")
    tree.folder(folder)[name] = None
    tree.texts[path] = f"{text}\n"


def link(tree: Tree, path: str, target: str) -> None:
    folder, _, name = path.rpartition("/")
    tree.folder(folder)[name] = None
    tree.links[path] = target


def put_pci(tree: Tree, places: Places) -> None:
    for bus, device in places.devices.items():
        folder = device.path
        link(tree, f"/sys/bus/pci/devices/{bus}", folder)
        for name, text in device.files.items():
            put(tree, f"{folder}/{name}", text)
        if device.acs:  # the extended capability ACS at 0x100: RR, CR and UF on
            tree.folder(folder)["config"] = None
            tree.blobs[f"{folder}/config"] = bytes(0x100) + b"\x0d\x00\x01\x00\x00\x00\x1c\x00" + bytes(8)


def put_rdma(tree: Tree, case: Case, places: Places) -> None:
    nodes = case["container"]["dev_infiniband"]
    for number, device in enumerate(rdma_of(case)):
        name = device["name"]
        folder = f"/sys/class/infiniband/{name}"
        where = places.path_of(name) or f"/sys/devices/elsewhere/{name}"
        link(tree, f"{folder}/device", where)
        tree.folder(where)
        for file in ("vendor", "numa"):
            if device[file] is not None and not places.path_of(name):
                put(tree, f"{where}/{'numa_node' if file == 'numa' else file}", device[file])
        if device["asic"] is not None:
            digits = f"{zlib.crc32(device['asic'].encode()):08x}{zlib.crc32(name[:0].encode()) or 0xA:08x}"
            put(tree, f"{folder}/sys_image_guid", ":".join(digits[at : at + 4] for at in range(0, 16, 4)))
        link(tree, f"{where}/driver", f"/sys/bus/pci/drivers/{driver_of(device)}")
        tree.folder(f"/sys/bus/pci/drivers/{driver_of(device)}")
        if device["model"]:
            put(tree, f"{folder}/hca_type", device["model"])
        put(tree, f"/sys/class/infiniband_verbs/uverbs{number}/ibdev", name)
        if nodes != []:
            tree.folder("/dev/infiniband")[f"uverbs{number}"] = None
            tree.opens[f"/dev/infiniband/uverbs{number}"] = device["openable"] is not False
        for port in device["ports"] or []:
            put_port(tree, case, f"{folder}/ports/{port['port']}", device, port)


def put_port(tree: Tree, case: Case, folder: str, device: Case, port: Case) -> None:
    states = {"ACTIVE": 4, "DOWN": 1, "INIT": 2, "ARMED": 3}
    if port["state"] is not None:
        put(tree, f"{folder}/state", f"{states.get(port['state'], 0)}: {port['state']}")
    if device["link_layer"] is not None:
        put(tree, f"{folder}/link_layer", device["link_layer"])
    if port["rate_text"] or port["rate_gbps"]:
        put(tree, f"{folder}/rate", port["rate_text"] or f"{port['rate_gbps']:g} Gb/sec (4X)")
    if port["lid"] is not None:
        put(tree, f"{folder}/lid", port["lid"])
    told = {gid["index"]: gid for gid in port["gids"] or []}
    foreign = case["machine"]["platform"] in ("pod", "container")
    for index in range(max(told, default=-1) + 1):
        if index not in told and foreign:
            tree.folder(f"{folder}/gids")[str(index)] = None  # of another namespace: reading it fails
            tree.refused[f"{folder}/gids/{index}"] = None
            continue
        gid = told.get(index)
        put(tree, f"{folder}/gids/{index}", gid["gid"] if gid else ZERO)
        if gid and gid["type"] is not None:
            put(tree, f"{folder}/gid_attrs/types/{index}", gid["type"])
        if gid and gid["netdev"] is not None:
            put(tree, f"{folder}/gid_attrs/ndevs/{index}", gid["netdev"])


def driver_of(device: Case) -> str:
    words = f"{device['model'] or ''} {device['name']}".lower()
    for word in ("efa", "irdma", "bnxt", "erdma", "mlx4", "qib", "hfi1", "scif", "rxe", "siw"):
        if word in words:
            return {"bnxt": "bnxt_en", "mlx4": "mlx4_core", "irdma": "ice"}.get(word, word)
    return {"8086": "ice", "14e4": "bnxt_en", "1ded": "erdma", "1d0f": "efa"}.get(device["vendor"] or "", "mlx5_core")


def rdma_of(case: Case) -> list[dict[str, Any]]:
    """The devices. Where a report speaks of RDMA without naming any (null), one stands for them."""
    devices = case["machine"]["rdma"]
    spoken = {"infiniband", "roce", "gdr-off", "peermem", "dma-buf", "gdr", "dev-infiniband", "providers", "memlock"}
    if devices is not None or not spoken & set(case["tags"]):
        return list(devices or [])
    layer = "Ethernet" if "roce" in case["tags"] else "InfiniBand"
    port = {"port": 1, "state": "ACTIVE", "rate_text": None, "rate_gbps": None, "lid": None, "gids": [], "netdev": None}
    blank = dict.fromkeys(("bus_id", "pci_parent", "numa", "vendor", "model", "function", "role", "asic"))
    return [{**blank, "name": "mlx5_0", "link_layer": layer, "openable": True, "ports": [port]}]


def put_gpus(tree: Tree, case: Case, places: Places) -> None:
    """procfs and the driver's answers; MIG instances of one card are one GPU here."""
    link_of, lines = case["machine"]["gpu_link"] or {}, []
    buses = places.gpu_buses
    for index, (bus, gpu) in enumerate(zip(buses, case["machine"]["gpus"] or [], strict=True)):
        named = gpu["model"] not in (None, "unknown")
        put(tree, f"/proc/driver/nvidia/gpus/{bus}/information", f"Model: \t {gpu['model']}" if named else "IRQ: 1")
        lines += [f"{index} bus_id {bus}"] + ([f"{index} name {gpu['model']}"] if named else [])
        if gpu["sm"]:
            lines.append(f"{index} capability {gpu['sm'] // 10}.{gpu['sm'] % 10}")
        if gpu["mig"]:
            lines.append(f"{index} mig 1")
        others = [other for other in dict.fromkeys(buses) if other != bus]
        if link_of.get("kind") in ("nvswitch", "nvlink", "nvlink-bridge"):
            ends = ["switch"] if link_of["kind"] == "nvswitch" else others
            lines += [f"{index} nvlinks 1", *(f"{index} nvlink {end}" for end in ends)]
        if link_of.get("p2p_ok") is not None:
            status = "0 0" if link_of["p2p_ok"] else "5 5"
            lines += [f"{index} p2p {other} {status}" for other in others]
    if buses:
        put(tree, "/proc/driver/nvidia/version", "NVRM version: NVIDIA")
        tree.programs[("rig-nvml",)] = Collected("ok", "\n".join([*lines, "end", ""]))


def put_netdevs(tree: Tree, case: Case) -> None:
    """Interfaces in the order of the case. An address has no known prefix length unless the note speaks of a subnet."""
    v4, v6, routes = [], [], ["Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask"]
    for index, dev in enumerate(case["machine"]["netdevs"] or [], 1):
        name, kind = dev["name"], dev["kind"] or ""
        physical = kind in ("ethernet", "gvnic", "virtio", "ena", "physical")
        target = f"/sys/devices/{'elsewhere' if physical else 'virtual'}/net/{name}"
        link(tree, f"/sys/class/net/{name}", target)
        put(tree, f"{target}/ifindex", index)
        put(
            tree,
            f"{target}/uevent",
            f"IFINDEX={index}" + (f"\nDEVTYPE={kind}" if kind in ("bond", "vlan", "bridge") else ""),
        )
        put(tree, f"{target}/type", {"loopback": 772, "ipoib": 32}.get(kind, 1))
        put(tree, f"{target}/operstate", "down" if dev["up"] is False else "up")
        if dev["speed_mbps"]:
            put(tree, f"{target}/speed", dev["speed_mbps"])
        for address in listed(dev["ipv4"]):
            same = any(word in (dev["note"] or "") for word in ("same prefix", "overlapping", "same subnet"))
            plain, _, told = address.partition("/")
            v4.append(f"{name} {plain}/{told or (8 if plain.startswith('127.') else 24 if same else 32)}")
        for address in listed(dev["ipv6"]):
            v6.append(f"{ipv6_digits(address)} {index:02x} 40 20 80 {name}")
        if dev["default_route"]:
            routes.append(f"{name}\t00000000\t010200C0\t0003\t0\t0\t0\t00000000")
    put(tree, "/proc/net/rig_ipv4", "\n".join(v4))
    put(tree, "/proc/net/if_inet6", "\n".join(v6))
    put(tree, "/proc/net/route", "\n".join(routes))


def listed(value: Any) -> list[str]:
    return [] if value is None else value.replace(",", " ").split() if isinstance(value, str) else list(value)


def ipv6_digits(address: str) -> str:
    from ipaddress import IPv6Address

    return f"{int(IPv6Address(address.partition('/')[0])):032x}"


def put_host(tree: Tree, case: Case) -> None:
    """Kernel, hypervisor, container, rights and limits."""
    put_kernel(tree, case)
    container, platform, model = case["container"], case["machine"]["platform"], case["machine"]["model"] or ""
    for word, maker in (
        ("AWS", "Amazon EC2"),
        ("GCP", "Google"),
        ("Azure", "Microsoft Corporation"),
        ("OCI", "OracleCloud.com"),
    ):
        if word in model.split():
            put(tree, "/sys/class/dmi/id/sys_vendor", maker)
            put(tree, "/sys/class/dmi/id/product_name", model.partition(word)[2].strip() or word)
    if any(device["vendor"] == "1d0f" for device in rdma_of(case)):  # EFA is Amazon's
        put(tree, "/sys/class/dmi/id/sys_vendor", "Amazon EC2")
        put(tree, "/sys/class/dmi/id/product_name", next((word for word in model.split() if "." in word), "unknown"))
    if platform == "vm":
        put(tree, "/sys/hypervisor/type", "kvm")
    arch = (case["machine"]["cpu"] or {}).get("vendor") or "GenuineIntel"
    put(tree, "/proc/cpuinfo", f"vendor_id: {arch}\nflags: fpu{' hypervisor' if platform == 'vm' else ''}")
    if platform == "pod" or container["runtime"] == "kubernetes":
        tree.folder("/run/secrets/kubernetes.io")
    elif platform == "container":
        put(tree, "/.dockerenv", "")
    bits = IPC_LOCK_BIT if "IPC_LOCK" in str(container["caps"] or "") else 0
    status = [f"Uid:\t{container['uid']}\t{container['uid']}\t0\t0"] if container["uid"] is not None else []
    if container["caps"] is not None or container["privileged"] is not None:
        status.append(f"CapEff:\t{(1 << 41) - 1 if container['privileged'] else DEFAULT_CAPABILITIES | bits:016x}")
    elif case["kernel"]["acs"] is not None:
        status += ["Uid:\t0\t0\t0\t0", f"CapEff:\t{(1 << 41) - 1:016x}"]  # who saw ACSCtl was root
    put(tree, "/proc/self/status", "\n".join(status))
    memlock = -1 if container["memlock_bytes"] == "unlimited" else container["memlock_bytes"]
    if memlock is None and container["privileged"] is False:
        memlock = DEFAULT_MEMLOCK
    if memlock is not None:
        amount = "unlimited" if memlock == -1 else memlock
        put(tree, "/proc/self/limits", f"{'Limit':26}Soft Hard Units\n{'Max locked memory':26}{amount} {amount} bytes")
    if container["shm_bytes"] is not None:
        tree.folder("/dev/shm")
        tree.spaces["/dev/shm"] = Space(container["shm_bytes"], container["shm_bytes"])


def put_kernel(tree: Tree, case: Case) -> None:
    """Release, modules and peer-memory clients."""
    kernel = case["kernel"]
    if case["software"]["kernel"]:
        put(tree, "/proc/sys/kernel/osrelease", case["software"]["kernel"])
    if (
        kernel["modules"] is not None
        or kernel["memory_peers"] is not None
        or kernel["module_nvidia_peermem"] is not None
    ):
        for module in ("kernel", *(kernel["modules"] or ())):
            tree.folder(f"/sys/module/{module}")
    if kernel["module_nvidia_peermem"]:
        put(tree, "/sys/module/nvidia_peermem/version", "1")
    for client in kernel["memory_peers"] or []:
        put(tree, f"/sys/kernel/mm/memory_peers/{client}/version", "1")


def put_image(tree: Tree, case: Case) -> None:
    """The image is whole unless the case says otherwise."""
    if case["container"]["libibverbs"] is not False:
        put(tree, "/usr/lib/libibverbs.so.1", "")
        providers = case["container"]["providers"]
        for name in PROVIDERS if providers in (None, True) else listed(providers or None):
            put(tree, f"/usr/lib/libibverbs/lib{name}-rdmav34.so", "")
    plugin = case["software"]["net_plugin"]
    if plugin is None and any(device["vendor"] == "1d0f" for device in rdma_of(case)):
        plugin = None if any(word in case["title"].lower() for word in ("without", "missing", "no plugin")) else "ofi"
    if plugin or {"plugin", "heterogeneous"} <= set(case["tags"]):
        folder = "/opt/amazon/ofi-nccl/lib" if "ofi" in (plugin or "") else "/usr/local/lib"
        put(tree, f"{folder}/libnccl-net.so", "")

"""Where the devices of a case sit in the PCI tree: only what the case tells.

A switch of a case is what NCCL sees: in sysfs it is an upstream port with a downstream port below it, under a root
port.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

Case = Mapping[str, Any]
BRIDGE = "0x060400"


class Device(NamedTuple):
    path: str
    files: dict[str, str]
    acs: bool = False


class Places(NamedTuple):
    """`devices`: bus id -> its folder, for what is in the tree. `names`: HCA -> bus id there. `slots`: HCA -> bus id
    that is known (or stands for what is known of cards) without a place. `gpu_buses`: one for each GPU of the case."""

    devices: dict[str, Device]
    names: dict[str, str]
    slots: dict[str, str]
    gpu_buses: list[str]

    def path_of(self, hca: str) -> str | None:
        bus = self.names.get(hca)
        return self.devices[bus].path if bus is not None else None

    def affinity(self, case: Case) -> dict[str, list[str]]:
        """HCA -> GPUs below the same switch of the real host, where a case of a guest tells it (`true_pairs`)."""
        pairs = (case["machine"]["distance"] or {}).get("true_pairs") or {}
        found: dict[str, list[str]] = {}
        groups = pairs.values() if isinstance(pairs, Mapping) else pairs
        for group in groups:
            for name, bus in self.names.items():
                if bus in group:
                    found[name] = [gpu for gpu in self.gpu_buses if gpu in group]
        return found


def placed(case: Case) -> Places:
    """Put devices where they are told to be: under the switches of the case, a root port, at a distance, on a guest's
    bus."""
    machine = case["machine"]
    gpus, rdma, guest = machine["gpus"] or [], machine["rdma"] or [], machine["platform"] == "vm"
    buses = [gpu["bus_id"] or f"00f0:{index + 1:02x}:00.0" for index, gpu in enumerate(gpus)]
    builder, cards = Builder(case), Cards("socket-direct" in case.get("tags", ()))
    builder.switches(machine["pci"] or [])
    builder.numas = {bus: gpu["numa"] for gpu, bus in zip(gpus, buses, strict=True) if gpu["numa"] is not None}
    names: dict[str, str] = {}
    slots = {device["name"]: bus for device in rdma if (bus := cards.bus(device, guest)) is not None}
    told = told_distances(case, buses)
    if guest:
        told = [one for one in told if one[0] in ("PIX", "PXB")]
    for gpu, bus in zip(gpus, buses, strict=True):
        if gpu["pci_parent"] or (guest and not any(bus == one[1] for one in told)):
            builder.put(bus, gpu["pci_parent"], gpu["numa"], "0x030200", "0x10de")
    for device in rdma:
        name = device["name"]
        if name in slots and (device["pci_parent"] or (guest and not any(name == one[2] for one in told))):
            names[name] = slots.pop(name)
            builder.put(
                names[name], device["pci_parent"], device["numa"], "0x020700", f"0x{device['vendor'] or '15b3'}"
            )
    for kind, gpu_bus, name in told:
        bus = names.get(name) or slots.pop(name, None) or f"00f1:{len(names) + 1:02x}:00.0"
        names[name] = bus
        builder.pair(kind, gpu_bus, bus)
    builder.acs(case)
    return Places(builder.devices, names, slots, buses)


class Cards:
    """Bus ids of HCAs: those told, a further function for a second port of a card, a slot of its own for another
    card."""

    def __init__(self, two_slots: bool) -> None:
        self.two_slots = two_slots
        self.used: set[str] = set()
        self.by_card: dict[str, str] = {}

    def bus(self, device: Case, guest: bool) -> str | None:
        """In a guest every device has a place, on a bus of its own where no other is told."""
        bus, card = device["bus_id"], device["asic"] or (device["name"] if guest else None)
        if bus is None and card is not None:
            bus = self.by_card.get(card) or f"00f2:{len(self.used) + 1:02x}:00.0"
            if self.two_slots:
                bus = f"00f2:{len(self.used) + 1:02x}:00.0"
            self.by_card[card] = bus
        while bus is not None and bus in self.used:
            bus = f"{bus[:-1]}{int(bus[-1], 16) + 1:x}"
        if bus is not None:
            self.used.add(bus)
        return bus


class Builder:
    """Folders of /sys/devices."""

    def __init__(self, case: Case) -> None:
        self.devices: dict[str, Device] = {}
        self.numas: dict[str, int] = {}  # bus id of a GPU -> its NUMA node, where it is told
        self.below: dict[str, str] = {}  # switch -> folder for what hangs on it
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"00fe:{self.count:02x}:00.0"

    def bridge(self, bus: str, folder: str, files: Mapping[str, str] = {}) -> str:
        self.devices[bus] = Device(folder, {"class": BRIDGE, "vendor": "0x1000", "device": "0xffff", **files})
        return folder

    def switches(self, told: list[dict[str, Any]]) -> None:
        for one in told:
            self.switch(one, {other["bus_id"]: other for other in told})

    def switch(self, one: dict[str, Any], told: Mapping[str, Any]) -> str:
        bus = one["bus_id"]
        if bus in self.below:
            return self.below[bus]
        parent = one["parent"]
        if parent in told:
            above = self.switch(told[parent], told)
        else:
            numa = str(parent or "")[3:] if str(parent or "").startswith("cpu") else "-1"
            port = self.fresh()
            above = self.bridge(port, f"/sys/devices/pci{port[:7]}/{port}", {"numa_node": numa})
        numa = self.devices[above.rpartition("/")[2]].files.get("numa_node", "-1")
        ids = ids_of(one["device"])
        if "root" in str(one.get("kind") or ""):
            self.below[bus] = self.bridge(bus, f"{above}/{bus}", {"numa_node": numa, **ids})
            return self.below[bus]
        upstream = self.bridge(bus, f"{above}/{bus}", {"numa_node": numa, **ids})
        down = self.fresh()
        self.below[bus] = self.bridge(down, f"{upstream}/{down}", {"numa_node": numa})
        return self.below[bus]

    def put(self, bus: str, parent: str | None, numa: int | None, code: str, vendor: str) -> None:
        files = {"class": code, "vendor": vendor, "device": "0x1021", "numa_node": str(-1 if numa is None else numa)}
        if parent in self.below:
            folder = f"{self.below[parent]}/{bus}"
        elif parent is not None and parent != bus:
            folder = f"{self.bridge(parent, f'/sys/devices/pci{parent[:7]}/{parent}')}/{bus}"
        else:
            folder = f"/sys/devices/pci{bus[:7]}/{bus}"
        self.devices[bus] = Device(folder, files)

    def pair(self, kind: str, gpu: str, hca: str) -> None:
        """Place two devices so that they are `kind` apart. A later pair moves nothing that has a place."""
        if gpu not in self.devices:
            top = {"bus_id": self.fresh(), "parent": f"cpu{self.numas.get(gpu, len(self.devices) % 8)}", "device": None}
            inner = {"bus_id": self.fresh(), "parent": top["bus_id"], "device": None}
            self.switch(inner, {top["bus_id"]: top})
            numa = int(self.devices[inner["bus_id"]].files["numa_node"])
            self.put(gpu, inner["bus_id"], numa, "0x030200", "0x10de")
        if hca in self.devices:
            return
        inner_bus = self.devices[gpu].path.split("/")[-3]
        numa = int(self.devices[gpu].files["numa_node"])
        if kind in ("PIX", "PXB"):
            top_bus = self.devices[gpu].path.split("/")[-5]
            parent = inner_bus if kind == "PIX" else self.sibling(top_bus)
            self.put(hca, parent, numa, "0x020700", "0x15b3")
        else:
            self.put(hca, None, numa if kind != "SYS" else numa + 1, "0x020700", "0x15b3")

    def sibling(self, top: str) -> str:
        other = {"bus_id": self.fresh(), "parent": top, "device": None}
        self.switch(other, {top: {"bus_id": top, "parent": None, "device": None}})
        return str(other["bus_id"])

    def acs(self, case: Case) -> None:
        """A bridge whose ACSCtl redirects, where the report saw one."""
        text = (case.get("kernel") or {}).get("acs")
        seen = isinstance(text, str) and (
            text.lower().startswith("on") or "ReqRedir+" in text or "enabled" in text.lower()
        )
        if not (seen or text is True):
            return
        port, end = self.fresh(), self.fresh()
        folder = self.bridge(port, f"/sys/devices/pci{port[:7]}/{port}")
        self.devices[port] = self.devices[port]._replace(acs=True)
        self.devices[end] = Device(f"{folder}/{end}", {"class": "0x020000", "vendor": "0x15b3", "numa_node": "-1"})


def ids_of(text: str | None) -> dict[str, str]:
    """`1000:c030 subsys 1003` as files; the subsystem's vendor is the switch's."""
    words = (text or "").split()
    if not words or ":" not in words[0]:
        return {}
    vendor, _, device = words[0].partition(":")
    found = {"vendor": f"0x{vendor}", "device": f"0x{device}"}
    if len(words) > 2 and words[1].startswith("subsys"):
        found |= {"subsystem_vendor": f"0x{vendor}", "subsystem_device": f"0x{words[2].rpartition(':')[2]}"}
    return found


KINDS = {"NODE": "PHB", "PHB": "PHB", "PIX": "PIX", "PXB": "PXB", "SYS": "SYS"}


def told_distances(case: Case, gpu_buses: list[str]) -> list[tuple[str, str, str]]:
    """(class, GPU's bus id, HCA) from `distance`, nearest first. Shapes: {"GPU0": {"mlx5_0": "PIX"}}, {"GPU0": "PHB"},
    {"GPU0-3": ...}, {"all": "SYS"}, {"anything": "GPU0-3 PHB"}; other words tell nothing here."""
    told: dict[tuple[str, str], str] = {}
    gpus = {gpu["index"]: bus for gpu, bus in zip(case["machine"]["gpus"] or [], gpu_buses, strict=True)}
    hcas = [device["name"] for device in case["machine"]["rdma"] or []]
    for who, row in rows_of(case["machine"]["distance"] or {}):
        for index, bus in gpus.items():
            for hca in hcas if who is None or index in who else ():
                text = str(row.get(hca) or row.get("all") or "")
                kind = KINDS.get(text.split(" ")[0])
                if kind is not None:
                    told.setdefault((bus, hca), kind)
    order = ("PIX", "PXB", "PHB", "SYS")
    return sorted(((kind, bus, hca) for (bus, hca), kind in told.items()), key=lambda one: order.index(one[0]))


def rows_of(distance: Mapping[str, Any]) -> list[tuple[range | None, Mapping[str, Any]]]:
    """(GPUs, None for all; HCA or "all" -> words); rows that name their GPUs come first."""
    found: list[tuple[range | None, Mapping[str, Any]]] = []
    for key, value in distance.items():
        who = gpus_named(key)
        if who is not None:
            found.append((who, value if isinstance(value, Mapping) else {"all": value}))
        elif isinstance(value, str):
            who = gpus_named(value.split(" ")[0])
            if who is not None:
                found.append((who, {"all": value.partition(" ")[2]}))
            elif key == "all":
                found.append((None, {"all": value}))
    return sorted(found, key=lambda one: one[0] is None)


def gpus_named(word: str) -> range | None:
    """`GPU0` or `GPU4-7` as numbers."""
    first, _, last = word.removeprefix("GPU").partition("-")
    if not word.startswith("GPU") or not first.isdigit() or not (last or first).isdigit():
        return None
    return range(int(first), int(last or first) + 1)

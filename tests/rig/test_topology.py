"""Distances are NCCL's: one tree, every class, and the cases where nvidia-smi says otherwise."""

import pytest

from rig.machine import PciDevice
from rig.topology import bridges, path_class, paths, place_of, tree


def chain(host: str, *buses: str, numa: int | None = 0, **more: str) -> list[PciDevice]:
    """A device and the bridges above it."""
    return [
        PciDevice(
            bus, buses[at - 1] if at else None, host, "060400" if at < len(buses) - 1 else "030200", numa=numa, **more
        )
        for at, bus in enumerate(buses)
    ]


def made(*chains: list[PciDevice]) -> dict[str, PciDevice]:
    return {device.bus_id: device for one in chains for device in one}


def seen(known: dict[str, PciDevice]) -> tuple[str, ...]:
    """The switches above the GPU."""
    place = place_of(known, GPU)
    assert place is not None
    return place.switches


ROOT, UP, DOWN, DOWN2 = "0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:02:01.0"
GPU, NIC = "0000:03:00.0", "0000:04:00.0"


def test_below_one_switch_is_pix() -> None:
    known = made(chain("pci0000:00", ROOT, UP, DOWN, GPU), chain("pci0000:00", ROOT, UP, DOWN2, NIC))
    assert path_class(known, GPU, NIC) == path_class(known, NIC, GPU) == "PIX"
    assert seen(known) == (UP,)


def test_two_functions_of_one_card_are_pix() -> None:
    known = made(chain("pci0000:00", ROOT, UP, DOWN, GPU), chain("pci0000:00", ROOT, UP, DOWN, "0000:03:00.1"))
    assert path_class(known, GPU, "0000:03:00.1") == "PIX"


def test_a_second_switch_on_the_way_is_pxb() -> None:
    known = made(
        chain("pci0000:00", ROOT, UP, DOWN, "0000:05:00.0", "0000:06:00.0", GPU),
        chain("pci0000:00", ROOT, UP, DOWN2, NIC),
    )
    assert path_class(known, GPU, NIC) == "PXB"


def test_two_switches_below_a_third_are_pxb() -> None:
    known = made(
        chain("pci0000:00", ROOT, UP, DOWN, "0000:05:00.0", "0000:06:00.0", GPU),
        chain("pci0000:00", ROOT, UP, DOWN2, "0000:07:00.0", "0000:08:00.0", NIC),
    )
    assert path_class(known, GPU, NIC) == "PXB"


def test_root_ports_are_no_switches() -> None:
    known = made(chain("pci0000:00", ROOT, GPU), chain("pci0000:00", "0000:00:02.0", NIC))
    assert path_class(known, GPU, NIC) == "PHB"
    assert seen(known) == ()


def test_other_host_bridges_of_one_numa_node_are_phb_where_nvidia_smi_says_node() -> None:
    known = made(chain("pci0000:00", ROOT, GPU), chain("pci0000:40", "0000:40:01.0", NIC))
    assert path_class(known, GPU, NIC) == "PHB"


def test_between_numa_nodes_is_sys_even_on_one_socket() -> None:
    known = made(chain("pci0000:00", ROOT, GPU), chain("pci0000:40", "0000:40:01.0", NIC, numa=1))
    assert path_class(known, GPU, NIC) == "SYS"


def test_a_guest_without_numa_nodes_is_one_cpu() -> None:
    known = made(chain("pci0000:00", GPU, numa=None), chain("pci0000:00", NIC, numa=None))
    assert path_class(known, GPU, NIC) == "PHB"


def test_one_unknown_numa_node_leaves_the_class_unknown() -> None:
    known = made(chain("pci0000:00", GPU, numa=None), chain("pci0000:40", NIC, numa=1))
    assert path_class(known, GPU, NIC) is None


def test_a_bridge_without_a_numa_node_leaves_it_to_the_device() -> None:
    known = made(chain("pci0000:00", ROOT, UP, DOWN, GPU), chain("pci0000:40", "0000:40:01.0", NIC, numa=1))
    known[UP] = known[UP]._replace(numa=None)
    assert path_class(known, GPU, NIC) == "SYS"


@pytest.mark.parametrize("pair", [(GPU, "0000:99:00.0"), ("0000:99:00.0", GPU)])
def test_a_device_outside_the_tree_has_no_class(pair: tuple[str, str]) -> None:
    assert path_class(made(chain("pci0000:00", ROOT, GPU)), *pair) is None


def test_a_device_is_local_to_itself() -> None:
    assert path_class(made(chain("pci0000:00", ROOT, GPU)), GPU, GPU) == "LOC"


@pytest.mark.parametrize(
    ("upper", "lower", "kind"),
    [
        (("1000", "c010", "1000", "a096"), ("1000", "c010", "1000", "a096"), "PIX"),
        (("1000", "c030", "1000", "0104"), ("1000", "c030", "1000", "1104"), "PIX"),
        (("1000", "c030", "1000", "0104"), ("1000", "c030", "1000", "0104"), "PXB"),
        (("1000", "c010", "1000", "a096"), ("1000", "c030", "1000", "1104"), "PXB"),
        (("1000", "c010", "1028", "a096"), ("1000", "c010", "1028", "a096"), "PXB"),
        (("10b5", "9797", "10b5", "9797"), ("10b5", "9797", "10b5", "9797"), "PXB"),
    ],
)
def test_virtual_levels_of_broadcom_switches_are_one_switch(
    upper: tuple[str, ...], lower: tuple[str, ...], kind: str
) -> None:
    inner = "0000:05:00.0"
    known = made(
        chain("pci0000:00", ROOT, UP, DOWN, inner, "0000:06:00.0", GPU), chain("pci0000:00", ROOT, UP, DOWN2, NIC)
    )
    for bus, ids in ((UP, upper), (inner, lower)):
        vendor, device, sub_vendor, sub_device = ids
        known[bus] = known[bus]._replace(
            vendor=vendor, device=device, subsystem_vendor=sub_vendor, subsystem_device=sub_device
        )
    assert path_class(known, GPU, NIC) == kind


def test_a_circle_of_parents_ends() -> None:
    known = {GPU: PciDevice(GPU, NIC), NIC: PciDevice(NIC, GPU)}
    assert bridges(known, GPU) == [NIC, GPU]
    assert path_class(known, GPU, NIC) in ("PIX", "PXB", "PHB", "SYS", None)


def test_a_tuple_of_devices_will_do() -> None:
    devices = tuple(made(chain("pci0000:00", ROOT, GPU), chain("pci0000:00", ROOT, NIC)).values())
    assert path_class(devices, GPU, NIC) == "PHB"
    assert [(path.a, path.b, path.kind) for path in paths(devices, [GPU], [GPU, NIC])] == [
        (GPU, GPU, "LOC"),
        (GPU, NIC, "PHB"),
    ]
    assert tree(devices)[GPU].parent == ROOT

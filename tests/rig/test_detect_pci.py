"""The PCI tree from kernel texts, whole and broken."""

import pytest

from rig.captured import Captured, Tree
from rig.detect import pci
from tests.machines.paper import Paper

GPU = "0000:03:00.0"


def paper_with_gpu() -> Paper:
    paper = Paper()
    port = paper.bridge("/sys/devices/pci0000:00", "0000:00:01.0", numa=0)
    down = paper.switch(port, "0000:01:00.0", ("0000:02:00.0",), numa=0)[0]
    paper.gpu(down, GPU, "NVIDIA H100 80GB HBM3", device="2330", numa=0)
    return paper


@pytest.mark.parametrize(
    ("path", "parents"),
    [
        ("/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0", ("pci0000:17", ("0000:17:01.0",))),
        ("/sys/devices/pci0000:00/0000:00:05.0", ("pci0000:00", ())),
        (
            "/sys/devices/pci0000:64/0000:64:00.5/pci10000:00/10000:00:02.0/10000:01:00.0",  # behind VMD
            ("pci10000:00", ("10000:00:02.0",)),
        ),
        (
            "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/x/pci0001:00/0001:00:00.0",  # Hyper-V
            ("pci0001:00", ()),
        ),
        (
            "/sys/devices/platform/soc/40000000.pcie/pci0005:00/0005:00:00.0/0005:01:00.0",
            ("pci0005:00", ("0005:00:00.0",)),
        ),
        ("/sys/devices/virtual/net/lo", (None, ())),
        ("", (None, ())),
        (None, (None, ())),
    ],
)
def test_parents_are_the_bridges_on_the_way(path: str | None, parents: tuple[str | None, tuple[str, ...]]) -> None:
    assert pci.parse_parents(path) == parents


@pytest.mark.parametrize(("text", "node"), [("0\n", 0), ("7\n", 7), ("-1\n", None), ("999999", None), ("", None)])
def test_numa_nodes(text: str, node: int | None) -> None:
    assert pci.parse_numa(text) == node


def test_the_bus_table_names_slots_of_a_maker() -> None:
    text = "1b00\t10de2330\t5e\t0\n0008\t80860d57\t0\n4b01\t15b3101b\t0\n00ff\t10de1af1\t0\n"
    table = pci.parse_bus_table(text)
    assert table is not None and table.makers == ("1b:00.0", "4b:00.1", "00:1f.7") and table.unique
    assert pci.ids_in(table, "0000:00:01.0") == ("8086", "0d57") and pci.ids_in(table, "0000:00:02.0") is None
    names = ["0000:1b:00.0", "0000:00:01.0", "0001:4b:00.1"]
    assert pci.candidates(Captured(Tree()), names, table) == ["0000:1b:00.0", "0001:4b:00.1"]
    shared = pci.parse_bus_table(text + "0008\t10de2331\n")  # two domains, and it has no column for that
    assert shared is not None and pci.ids_in(shared, "0000:00:01.0") is None and "00:01.0" in shared.makers


def test_a_boot_s_tree_differs_in_links_only() -> None:
    whole = pci.read_tree(Captured(paper_with_gpu().done()), ())
    short = pci.read_tree(Captured(paper_with_gpu().done()), (), links=False)
    blank = {"link_gts": None, "link_width": None, "max_link_gts": None, "max_link_width": None}
    assert short == tuple(device._replace(**blank) for device in whole) != whole


@pytest.mark.parametrize("text", [None, "", "garbage", "zz00\t10de2330\n"])
def test_another_text_is_no_bus_table(text: str | None) -> None:
    assert pci.parse_bus_table(text) is None


def test_a_tree_holds_gpus_and_the_bridges_above_them() -> None:
    tree = {device.bus_id: device for device in pci.read_tree(Captured(paper_with_gpu().done()), ())}
    assert list(tree) == ["0000:00:01.0", "0000:01:00.0", "0000:02:00.0", GPU]
    assert [device.parent for device in tree.values()] == [None, "0000:00:01.0", "0000:01:00.0", "0000:02:00.0"]
    gpu = tree[GPU]
    assert (gpu.class_code, gpu.vendor, gpu.device, gpu.numa, gpu.root) == ("030200", "10de", "2330", 0, "pci0000:00")
    assert (gpu.link_gts, gpu.link_width, gpu.max_link_gts, gpu.max_link_width) == (32.0, 16, 32.0, 16)


def test_without_the_bus_table_and_uevents_single_files_tell_the_same() -> None:
    whole, bare = paper_with_gpu().done(), paper_with_gpu().done()
    del bare.texts["/proc/bus/pci/devices"]
    for path in [path for path in bare.texts if path.endswith("/uevent")]:
        folder = path.rpartition("/")[0]
        bare.texts[f"{folder}/class"] = "0x060400\n" if not folder.endswith(GPU) else "0x030200\n"
        bare.children[folder]["class"] = None
        del bare.texts[path]
    assert pci.read_tree(Captured(bare), ()) == pci.read_tree(Captured(whole), ())


def test_a_card_without_a_driver_is_a_fact_and_a_disk_is_not() -> None:
    paper = paper_with_gpu()
    paper.pci("/sys/devices/pci0000:40", "0000:40:00.0", code="020700", ids="15b3:1021")
    paper.pci("/sys/devices/pci0000:41", "0000:41:00.0", code="010802", ids="144d:a80a")
    paper.pci("/sys/devices/pci0000:42", "0000:42:00.0", code="040300", ids="10de:22ba")
    found = [device.bus_id for device in pci.read_tree(Captured(paper.done()), ())]
    assert "0000:40:00.0" in found and "0000:41:00.0" not in found and "0000:42:00.0" not in found


def acs(control: int) -> bytes:
    """Config space with a chain of two capabilities: AER at 100, then ACS at 148."""
    blob = bytearray(4096)
    blob[0x100:0x104] = (0x0001 | 2 << 16 | 0x148 << 20).to_bytes(4, "little")
    blob[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
    blob[0x14C:0x150] = (0x1F | control << 16).to_bytes(4, "little")
    return bytes(blob)


@pytest.mark.parametrize(
    ("control", "redirects"), [(0x1D, True), (0x04, True), (0x10, True), (0x01, False), (0, False)]
)
def test_acs_control_is_read_from_config_space(control: int, redirects: bool) -> None:
    paper = paper_with_gpu()
    port = "/sys/devices/pci0000:00/0000:00:01.0"
    paper.tree.blobs[f"{port}/config"] = acs(control)
    paper.tree.children[port]["config"] = None
    root = Captured(paper.done())
    tree = {device.bus_id: device for device in pci.with_acs(root, pci.read_tree(root, ()))}
    assert tree["0000:00:01.0"].acs_redirects is redirects
    assert tree["0000:01:00.0"].acs_redirects is None


@pytest.mark.parametrize("blob", [bytes(64), b"\xff" * 4096, bytes(4096), b"\x01\x00\x02\x10" * 1024])
def test_config_space_that_says_nothing_is_unknown(blob: bytes) -> None:
    paper = paper_with_gpu()
    port = "/sys/devices/pci0000:00/0000:00:01.0"
    paper.tree.blobs[f"{port}/config"] = blob
    paper.tree.children[port]["config"] = None
    assert pci.parse_acs(pci.read_extended(Captured(paper.done()), "0000:00:01.0")) is None


@pytest.mark.parametrize(
    ("units", "group", "cmdline", "mode"),
    [
        ([], None, "", "off"),
        (["dmar0"], "identity\n", "", "passthrough"),
        (["dmar0"], "DMA-FQ\n", "iommu=pt", "translated"),
        (["ivhd0"], "DMA\n", None, "translated"),
        (["dmar0"], None, "quiet iommu=pt", "passthrough"),
        (["dmar0"], None, "amd_iommu=off", "off"),
        (["dmar0"], None, "quiet", None),
        (["dmar0"], "\0garbage", None, None),
    ],
)
def test_iommu(units: list[str], group: str | None, cmdline: str | None, mode: str | None) -> None:
    assert pci.parse_iommu(units, group, cmdline) == mode

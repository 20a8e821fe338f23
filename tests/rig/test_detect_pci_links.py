"""PCIe links for checks: both ends, error counters, BARs; guests, virtual functions and garbage tell less."""

from pathlib import Path

import pytest

from rig.captured import Captured, parse
from rig.detect import pci_links, topology_file
from rig.host import PciLink

TREE = """rig-capture 1
/sys/bus/pci/devices
  0000:15:01.0 -> /sys/devices/pci0000:15/0000:15:01.0
  0000:16:00.0 -> /sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0
  0000:16:00.4 -> /sys/devices/pci0000:15/0000:15:01.0/0000:16:00.4
  0000:00:09.0 -> /sys/devices/pci0000:00/0000:00:09.0
/sys/devices/pci0000:15/0000:15:01.0
  max_link_speed = 16.0 GT/s PCIe
  max_link_width = 8
/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0
  current_link_speed = 2.5 GT/s PCIe
  current_link_width = 8
  max_link_speed = 32.0 GT/s PCIe
  max_link_width = 16
  aer_dev_correctable |
    RxErr 1
    BadTLP 0
    Replay 7
    TOTAL_ERR_COR 8
  aer_dev_nonfatal |
    Undefined 0
    TOTAL_ERR_NONFATAL 0
  aer_dev_fatal |
    Undefined 0
    TLP 2
  resource |
    0x0000000092000000 0x0000000092ffffff 0x0000000000040200
    0x000020c000000000 0x000020dfffffffff 0x000000000014220c
    0x0000000000000000 0x0000000000000000 0x0000000000000000
    0x000020e000000000 0x000020e001ffffff 0x000000000014220c
/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.4
  current_link_speed = Unknown
  current_link_width = 0
  max_link_speed = Unknown
  max_link_width = 255
  aer_dev_fatal !
/sys/devices/pci0000:00/0000:00:09.0
  current_link_width = 16
  max_link_width = 16
"""


def root(text: str = TREE) -> Captured:
    return Captured(parse(text))


def test_a_link_is_told_with_the_port_above() -> None:
    (link,) = pci_links.read_links(root(), ["0000:16:00.0"])
    assert link == PciLink("0000:16:00.0", 2.5, 8, 32.0, 16, 2, 0, 8, 16.0, 8, 128 << 30)


def test_a_virtual_function_tells_nothing_of_a_link() -> None:
    (link,) = pci_links.read_links(root(), ["0000:16:00.4"])
    assert link == PciLink("0000:16:00.4", upstream_max_gts=16.0, upstream_max_width=8)


def test_on_a_guests_root_bus_there_is_no_port_above() -> None:
    (link,) = pci_links.read_links(root(), ["0000:00:09.0"])
    assert (link.width, link.upstream_max_width, link.upstream_max_gts) == (16, None, None)


def test_each_is_read_once_and_the_absent_not_at_all() -> None:
    found = pci_links.read_links(root(), ["0000:16:00.0", None, "0000:ff:00.0", "0000:16:00.0"])
    assert [link.bus_id for link in found] == ["0000:16:00.0"]


@pytest.mark.parametrize("text", [None, "", "nonsense", "TOTAL_ERR_COR many\n"])
def test_no_error_count_is_made_up(text: str | None) -> None:
    assert pci_links.parse_errors(text, "correctable") is None


@pytest.mark.parametrize("text", [None, "", "0x0 0x0\n", "a b c\n", "0x0 0xff 0x40200\n", "0xff 0x00 0x14220c\n"])
def test_no_window_is_made_up(text: str | None) -> None:
    assert pci_links.parse_bar(text) is None


def test_bridge_windows_after_the_bars_do_not_count() -> None:
    text = "0x0 0x0 0x0\n" * 6 + "0x1000 0xffffffff 0x14220c\n"
    assert pci_links.parse_bar(text) is None


XML = """<system version="1"><cpu numaid="0"><pci busid="ffff:ff:01.0" class="0x060400" link_speed="32 GT/s">
<pci busid="0001:00:00.0" class="0x030200"/><pci class="0x0207" busid="0101:00:00.0"/>
<pci busid="0001:00:00.0"/></pci></cpu></system>
"""


def topology(path: str, text: str) -> Captured:
    above, _, name = path.rpartition("/")
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    return root(f"rig-capture 1\n{above}\n  {name} |\n{lines}")


def test_a_topology_file_names_its_buses() -> None:
    path, buses = topology_file.read_topology_file(topology("/opt/topo.xml", XML), "/opt/topo.xml")
    assert (path, buses) == ("/opt/topo.xml", ("ffff:ff:01.0", "0001:00:00.0", "0101:00:00.0"))


def test_the_file_that_nccl_finds_by_itself_counts_too() -> None:
    found = topology_file.read_topology_file(topology(topology_file.BY_DEFAULT, XML), None)
    assert found[0] == topology_file.BY_DEFAULT and found[1]


@pytest.mark.parametrize(("named", "want"), [(None, (None, None)), ("/no/file.xml", ("/no/file.xml", None))])
def test_a_missing_file_matters_only_where_it_is_named(named: str | None, want: tuple[str | None, None]) -> None:
    assert topology_file.read_topology_file(root(), named) == want


def test_what_is_no_topology_file_has_no_buses() -> None:
    odd = topology("/opt/topo.xml", "<html>busid</html>")
    assert topology_file.read_topology_file(odd, "/opt/topo.xml") == ("/opt/topo.xml", None)
    assert topology_file.read_topology_file(odd, "topo.xml") == ("topo.xml", None)


@pytest.mark.parametrize("name", ["hgx-h100-ib", "dgx-a100", "vm-flat-pci"])
def test_the_links_of_machines_on_paper(name: str) -> None:
    tree = Captured(str(Path(__file__).parent.parent / "machines" / name / "tree.txt"))
    buses = tree.ls("/sys/bus/pci/devices")
    links = [link for link in pci_links.read_links(tree, buses) if link.width is not None]
    assert links and all(link.max_width is not None and link.width == link.max_width for link in links)

"""The topology file that NCCL would read: the bus ids in it, to be held against the machine's own.

Source: NCCL's graph/topo.cc (NCCL_TOPO_FILE, else /var/run/nvidia-topologyd/virtualTopology.xml), graph/xml.cc.
"""

import re

from rig.root import Root
from rig.text import bus_id

BY_DEFAULT = "/var/run/nvidia-topologyd/virtualTopology.xml"
PCI = re.compile(r"<pci\s[^>]*?\bbusid=\"([0-9a-fA-F:.]{7,18})\"")


def parse_buses(text: str | None) -> tuple[str, ...] | None:
    """Bus ids of the `pci` elements in order, the switches that providers invent (`ffff:ff:..`) included; None for what
    is no topology file."""
    if text is None or "<system" not in text:
        return None
    found = (bus_id(told) for told in PCI.findall(text))
    return tuple(dict.fromkeys(bus for bus in found if bus is not None))


def read_topology_file(root: Root, named: str | None) -> tuple[str | None, tuple[str, ...] | None]:
    """(path, bus ids) of the file that a variable names, else of the one that NCCL looks for by itself; the path is
    None where neither is there, the bus ids are None where the named one cannot be read or is none."""
    path = named or BY_DEFAULT
    text = root.read(path) if path.startswith("/") else None
    if text is None and not named:
        return None, None
    return path, parse_buses(text)

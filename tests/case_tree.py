"""A case of tests/cases laid out as a machine: kernel files in memory, read by the real detectors.

What a report leaves open stays open: a device whose place in the PCI tree is not told is not in the tree. What files
cannot hold (a NUMA node or a bus id without a place, MIG instances, measured facts) is put into the Machine afterwards.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rig.captured import Captured, Tree
from rig.detect import detect
from rig.machine import Gpu, Hca, Machine
from rig.plan.gid import right_gid
from rig.plan.nccl import Peer
from rig.platform import PATH, Platform, load_platform
from tests.case_files import put, put_gpus, put_host, put_image, put_netdevs, put_pci, put_rdma, rdma_of
from tests.case_pci import Places, placed

Case = Mapping[str, Any]

# Settings that are the fabric owner's or the provider's choice. A case names them in `expected.env`; a machine can
# know them from its platform file only, so that is where they are put. Without the file none of them may appear.
_INTENT = """
    NCCL_IB_TC NCCL_IB_SL NCCL_IB_TIMEOUT NCCL_IB_RETRY_CNT NCCL_IB_QPS_PER_CONNECTION NCCL_IB_SPLIT_DATA_ON_QPS
    NCCL_IB_PCI_RELAXED_ORDERING NCCL_IGNORE_CPU_AFFINITY NCCL_BUFFSIZE NCCL_P2P_NET_CHUNKSIZE NCCL_CUMEM_ENABLE
    NCCL_PXN_DISABLE NCCL_NVLS_ENABLE NCCL_ALGO NCCL_PROTO NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS
    NCCL_IB_AR_THRESHOLD NCCL_IB_ADAPTIVE_ROUTING NCCL_DMABUF_ENABLE NCCL_NET_GDR_READ NCCL_MNNVL_ENABLE
    NCCL_SOCKET_NTHREADS NCCL_NSOCKS_PERTHREAD NCCL_IB_FIFO_TC FI_EFA_USE_DEVICE_RDMA FI_EFA_FORK_SAFE
"""
INTENT = frozenset(_INTENT.split())
BLANK: dict[str, Any] = {
    **dict.fromkeys(("bus_id", "pci_parent", "numa", "vendor", "model", "function", "role", "asic")),
    "link_layer": None,
    "ports": None,
    "openable": True,
}
TOPO_FILE = "/etc/rdma/topology.xml"


class Laid(NamedTuple):
    """A case as plan_nccl takes it."""

    machine: Machine
    platform: Platform | None
    user: dict[str, str]
    unread: dict[str, str]
    peers: tuple[Peer, ...]
    version: tuple[int, int, int] | None
    nodes: int | None
    symptoms: tuple[str, ...]
    p2p_works: bool | None


def lay_out(case: Case, *, roles: bool = False) -> Laid:
    """The case, with the platform file its provider would ship. `roles`: the file also names the role of each NIC."""
    tree, places = Tree(), placed(case)
    put_pci(tree, places)
    put_rdma(tree, case, places)
    put_gpus(tree, case, places)
    put_netdevs(tree, case)
    put_host(tree, case)
    put_image(tree, case)
    put_platform(tree, case, places, roles)
    root = Captured(tree)
    machine = complete(detect(root), case, places)
    platform, _ = load_platform(root)
    user, unread = variables(case)
    said = " ".join(filter(None, (case["title"], case["observed"]["symptom"])))
    nodes, told = case["machine"]["nodes"], (said,) if said else ()
    return Laid(machine, platform, user, unread, peers(case), version(case), nodes, told, p2p_measured(case))


def put_platform(tree: Tree, case: Case, places: Places, roles: bool) -> None:
    """The provider's file: its settings, its topology file, who sits beside whom, and (asked for) the roles."""
    expected = case["expected"]["env"]
    nics = [{"name": device["name"]} for device in rdma_of(case)]
    affinity = places.affinity(case)
    words = {"front-end": "frontend", "north-south": "frontend", "mgmt": "management"}
    for nic, device in zip(nics, rdma_of(case), strict=True):
        if device["name"] in affinity:
            nic["gpu_affinity"] = affinity[device["name"]]  # type: ignore[assignment]
        if roles and device["role"] not in (None, "duplicate"):
            nic["role"] = words.get(device["role"], device["role"])
        if "NCCL_IB_ADDR_RANGE" in expected:
            nic["subnet"] = expected["NCCL_IB_ADDR_RANGE"]
    env = {name: value for name, value in expected.items() if name in INTENT}
    nccl: dict[str, Any] = {"env": env} if env else {}
    if "NCCL_TOPO_FILE" in expected:
        nccl["topo_file"] = TOPO_FILE
        put(tree, TOPO_FILE, "\n".join(f'<pci busid="{bus}"/>' for bus in (*places.gpu_buses, *places.devices)))
    nics = [nic for nic in nics if len(nic) > 1]
    if nccl or nics:
        put(tree, PATH, json.dumps({"schema_version": 1, "nics": nics, "nccl": nccl}))


def complete(machine: Machine, case: Case, places: Places) -> Machine:
    """What files cannot hold."""
    told = {device["name"]: device for device in rdma_of(case)}
    seen = case["kernel"]
    kernel = {name: seen[name] for name in ("dmabuf_gpu", "dmabuf_nic", "p2pdma") if isinstance(seen[name], bool)}
    iommu = {"on": "translated", "pt": "passthrough", "passthrough": "passthrough", "off": "off"}.get(
        str(seen["iommu"])
    )
    return machine._replace(
        gpus=tuple(complete_gpus(machine.gpus, case, places)),
        hcas=tuple(complete_hca(hca, told[hca.name], places) for hca in machine.hcas),
        kernel=machine.kernel._replace(**kernel, iommu=iommu or machine.kernel.iommu),
    )


def complete_hca(hca: Hca, device: Case, places: Places) -> Hca:
    function = device["function"] or hca.function
    return hca._replace(function=function, bus_id=hca.bus_id or places.slots.get(hca.name))


def complete_gpus(gpus: Iterable[Gpu], case: Case, places: Places) -> list[Gpu]:
    """One entry for each line of the case (MIG instances share a bus id), with the NUMA node that was reported."""
    found = {gpu.bus_id: gpu for gpu in gpus}
    reported = case["machine"]["gpus"] or []
    return [
        found[bus]._replace(index=told["index"], numa=told["numa"])
        for bus, told in zip(places.gpu_buses, reported, strict=True)
    ]


def version(case: Case) -> tuple[int, int, int] | None:
    """The newest version that the report names: `2.23-2.24`, `<=2.22.3`, `2.28`."""
    return (
        parse_versions(case["software"]["nccl"] or "")[-1:][0]
        if parse_versions(case["software"]["nccl"] or "")
        else None
    )


def parse_versions(text: str) -> list[tuple[int, int, int]]:
    import re

    found = re.findall(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return [(int(major), int(minor), int(patch or 0)) for major, minor, patch in found if major == "2"]


def p2p_measured(case: Case) -> bool | None:
    """Whether peer access over PCIe really works, where the report tells."""
    link_of = case["machine"]["gpu_link"] or {}
    told: bool | None = link_of.get("p2p_ok")
    return told if link_of.get("kind") == "pcie" else None


def variables(case: Case) -> tuple[dict[str, str], dict[str, str]]:
    """The reporter's variables. An abbreviated value ("...") is not known; words beside a value tell where it stood."""
    user, unread = {}, {}
    for name, value in case["env_seen"].items():
        text = str(value)
        if "..." in text:
            continue
        if " " in text:
            unread[name] = text.split()[0]
        else:
            user[name] = text
    return user, unread


def peers(case: Case) -> tuple[Peer, ...]:
    """The other node, as far as the case tells."""
    told = case["peer"] or {}
    other = Peer(host="peer")
    if {"plugin", "heterogeneous"} <= set(case["tags"]) and case["software"]["net_plugin"] is None:
        other = other._replace(net_plugins=())
    if told.get("rdma"):
        devices = [{**BLANK, **device} for device in told["rdma"]]
        up = [one for one in devices if any(port["state"] == "ACTIVE" for port in one["ports"] or [])]
        usable = tuple(one["name"] for one in up if one["openable"] is not False)
        other = other._replace(hcas=usable, gid_index=peer_gids(devices) or None)
    if "hcas" in told:
        other = other._replace(hcas=tuple(told["hcas"]))
    names = told.get("socket_if") or told.get("bootstrap_if")
    if names:
        other = other._replace(socket_if=names)
    if told.get("nccl") and parse_versions(str(told["nccl"])):
        other = other._replace(nccl_version=parse_versions(str(told["nccl"]))[-1])
    if "net_plugin" in told:
        other = other._replace(net_plugins=(told["net_plugin"],) if told["net_plugin"] else ())
    return (other,) if other != Peer(host="peer") else ()


def peer_gids(devices: list[dict[str, Any]]) -> tuple[tuple[str, int], ...]:
    tree = Tree()
    blank: Any = {
        "machine": {"platform": "pod", "rdma": devices, "pci": None, "gpus": None, "distance": None},
        "container": {"dev_infiniband": None},
        "tags": [],
    }
    put_rdma(tree, blank, placed(blank))
    hcas = detect(Captured(tree)).hcas
    return tuple((hca.name, gid.index) for hca in hcas for port in hca.ports if (gid := right_gid(port)) is not None)

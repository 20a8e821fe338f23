"""Machines made up for tests, in the schema of tests/cases: everything is unknown but what is told."""

from typing import Any

PORT = {"port": 1, "state": "ACTIVE", "phys_state": "LinkUp", "rate_gbps": 200, "rate_text": None, "lid": None}


def v4(last: int, net: str = "c6336400") -> str:
    """Mapped GID of 198.51.100.LAST, or of another network of four bytes in hexadecimal."""
    number = int(net, 16) + last
    return f"0000:0000:0000:0000:0000:ffff:{number >> 16:04x}:{number & 0xFFFF:04x}"


def gids(start: int, *entries: tuple[str, str], netdev: str = "net1") -> list[dict[str, Any]]:
    """A GID table: (gid, type) from index `start` on."""
    return [
        {"index": start + at, "gid": gid, "type": kind, "ipv4": None, "netdev": netdev}
        for at, (gid, kind) in enumerate(entries)
    ]


LOCAL = "fe80:0000:0000:0000:0200:00ff:fe00:0001"
V1, V2 = "IB/RoCE v1", "RoCE v2"


def mlx5_table(last: int, netdev: str = "net1", start: int = 0) -> list[dict[str, Any]]:
    return gids(start, (LOCAL, V1), (LOCAL, V2), (v4(last), V1), (v4(last), V2), netdev=netdev)


def hca(name: str, layer: str = "InfiniBand", *, table: Any = (), port: Any = None, **told: Any) -> dict[str, Any]:
    blank = dict.fromkeys(("bus_id", "pci_parent", "numa", "vendor", "model", "function", "role", "asic"))
    ports = [{**PORT, "gids": list(table), "netdev": None, "netdev_up": None, **(port or {})}]
    return {**blank, "name": name, "link_layer": layer, "openable": True, "ports": ports, **told}


def gpus(count: int, model: str = "H100-SXM5", sm: int = 90, **told: Any) -> list[dict[str, Any]]:
    blank = {"model": model, "sm": sm, "bus_id": None, "pci_parent": None, "numa": None, "mig": None}
    return [{**blank, "index": index, **told} for index in range(count)]


def netdev(name: str, ipv4: Any = None, **told: Any) -> dict[str, Any]:
    blank = {"kind": "ethernet", "up": True, "ipv6": None, "speed_mbps": None, "default_route": None, "note": None}
    return {**blank, "name": name, "ipv4": ipv4, **told}


ETH0 = netdev("eth0", "192.0.2.10", default_route=True)


def kind(platform: str = "bare-metal", **told: Any) -> dict[str, Any]:
    """A case with everything unknown but what is told."""
    nothing = "modules memory_peers module_nvidia_peermem dmabuf_gpu dmabuf_nic p2pdma acs iommu"
    kernel = dict.fromkeys(nothing.split())
    inside = "runtime privileged dev_infiniband sysfs_infiniband shm_bytes memlock_bytes caps uid libibverbs providers"
    machine: dict[str, Any] = {
        "model": None,
        "platform": platform,
        "nodes": None,
        "cpu": None,
        "gpus": [],
        "gpu_link": None,
    }
    machine |= {"gpu_link": None, "pci": None, "rdma": [], "netdevs": [], "distance": None}
    machine |= {name: told.pop(name) for name in list(told) if name in machine}
    return {
        "title": "",
        "tags": told.pop("tags", []),
        "software": {
            "nccl": told.pop("nccl", None),
            "kernel": told.pop("release", None),
            "net_plugin": told.pop("plugin", None),
        },
        "machine": machine,
        "kernel": kernel | told.pop("kernel", {}),
        "container": dict.fromkeys(inside.split()) | told.pop("container", {}),
        "env_seen": told.pop("env", {}),
        "observed": {"symptom": told.pop("symptom", "")},
        "peer": told.pop("peer", None),
        "expected": {"env": told.pop("provider", {})},
    }

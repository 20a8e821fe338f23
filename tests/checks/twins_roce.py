"""Fixtures of the family roce."""

from typing import Any

from rig.machine import Gid, NetDev
from rig.plan import Setting
from rig.snapshot import Snapshot
from tests.checks.snapshots import h100, roce
from tests.checks.twin import Twin, changed
from tests.checks.twins_ports import ports

LOCAL = Gid(0, "fe80:0000:0000:0000:0200:00ff:fe00:0002", "RoCE v2", "bond2")
OLD = Gid(0, "0000:0000:0000:0000:0000:ffff:c633:6422", "IB/RoCE v1", "bond2")


def netdev(now: Snapshot, name: str, **values: Any) -> Snapshot:
    """An interface, changed."""
    made = tuple(dev._replace(**values) if dev.name == name else dev for dev in now.machine.netdevs)
    assert made != now.machine.netdevs
    return changed(now, machine__netdevs=made)  # type: ignore[no-any-return]


def table(now: Snapshot, *gids: Gid, refused: int = 0) -> Snapshot:
    """Another GID table for mlx5_bond_2."""
    return changed(  # type: ignore[no-any-return]
        now, machine__hcas__2__ports__0__gids=gids, machine__hcas__2__ports__0__gids_refused=refused
    )


def elsewhere(now: Snapshot, *names: str) -> Snapshot:
    """Interfaces of a port that are in another network namespace."""
    left = tuple(dev for dev in now.machine.netdevs if dev.name not in names)
    return changed(now, machine__netdevs=left)  # type: ignore[no-any-return]


def moved(now: Snapshot, name: str, address: str, gid: str) -> Snapshot:
    """A rail with an address of another subnet."""
    number = next(index for index, hca in enumerate(now.machine.hcas) if name in hca.ports[0].netdevs)
    gids = tuple(
        one._replace(gid=gid) if one.gid.startswith("0000") else one for one in now.machine.hcas[number].ports[0].gids
    )
    now = changed(now, **{f"machine__hcas__{number}__ports__0__gids": gids})
    return netdev(now, name, ipv4=(address,))


def prefix(now: Snapshot, number: int) -> Snapshot:
    """An InfiniBand rail of another fabric."""
    gid = Gid(0, "fec0:0000:0000:0001:0200:00ff:fe00:0003", "IB/RoCE v1")
    return changed(now, **{f"machine__hcas__{number}__ports__0__gids": (gid,)})  # type: ignore[no-any-return]


def all_ports(now: Snapshot, **values: Any) -> Snapshot:
    assert now.host is not None
    return changed(now, host__ports=tuple(one._replace(**values) for one in now.host.ports))  # type: ignore[no-any-return]


def told(now: Snapshot, value: str) -> Snapshot:
    """The platform's traffic class, in place of the one that the device forces."""
    line = Setting("NCCL_IB_TC", value, "platform file", "traffic class of the fabric")
    return all_ports(changed(now, plan__environment=(*now.plan.environment, line)), traffic_class=None)


STRANGER = NetDev("docker0", "bridge", True, None, 1500, ("172.17.0.1/16",))

TWINS = (
    Twin(
        "roce_ports_have_a_routable_gid",
        table(roce(), LOCAL),
        roce(),
        says="mlx5_bond_2:1 has no address that other nodes can reach",
        fix="IPv4",
        domain="host",
        reported=("NVIDIA/nccl#426", "NVIDIA/nccl#769", "NVIDIA/nccl#1131", "NVIDIA/nccl#925"),
    ),
    Twin(
        "roce_ports_have_a_routable_gid",
        table(roce(), OLD),
        table(roce(), OLD, OLD._replace(index=7, type="RoCE v2")),  # any index will do
        says="RoCE v1 addresses only",
        fix="IPv4",
        domain="host",
    ),
    Twin(
        "roce_ports_have_a_routable_gid",
        table(roce(), OLD._replace(type=None, netdev=None), refused=1),  # not known is no pass
        roce(),
        says="another network namespace",
        fix="--network=host",
        domain="host",
        outcome="unknown",
        reported=("NVIDIA/nccl#1573",),
    ),
    Twin(
        "roce_ports_have_a_routable_gid",
        table(elsewhere(roce(), "bond2", "ens3f0np0")),  # the kernel tells zeros of what is another's
        roce(),
        says="another network namespace",
        fix="--network=host",
        domain="host",
        outcome="unknown",
        reported=("NVIDIA/nccl#1573",),
    ),
    Twin(
        "roce_interfaces_are_up_with_an_address",
        netdev(roce(), "bond5", up=False),
        netdev(roce(), "ens5f1np1", up=False),  # a member of a bond whose other is up
        says="bond5 of mlx5_bond_5:1 is down",
        fix="ip link set",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "roce_interfaces_are_up_with_an_address",
        netdev(roce(), "bond5", ipv4=(), ipv6=()),
        netdev(roce(), "bond5", ipv4=(), ipv6=("2001:db8::5/64",)),
        says="bond5 of mlx5_bond_5:1 has no address",
        fix="ip address add",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "roce_rails_have_one_mtu",
        netdev(roce(), "bond7", mtu=1500),
        changed(roce(), machine__netdevs=(*roce().machine.netdevs, STRANGER)),  # front-end and bridges may have 1500
        says="mlx5_bond_7:1 1500",
        fix="mtu 9000",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "roce_packets_carry_4096_bytes",
        ports(roce(), "mlx5_bond_7", active_mtu=1024),
        ports(roce(), "mlx5_bond_0", active_mtu=1024),
        says="mlx5_bond_7:1 sends packets of 1024 bytes",
        fix="mtu 9000",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "roce_traffic_is_in_the_lossless_class",
        told(roce(), "0"),
        told(roce(), "106"),
        says="traffic goes in priority 0, congestion is signalled for 3 only",
        fix="NCCL_IB_TC=106",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "roce_traffic_is_in_the_lossless_class",
        all_ports(roce(), ecn=(False,) * 8),
        all_ports(told(roce(), "160"), ecn=(*(False,) * 5, True, False, False)),
        says="off for all priorities",
        fix="fabric",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "rails_agree_about_subnets",
        moved(roce(), "bond2", "198.51.100.55/28", "0000:0000:0000:0000:0000:ffff:c633:6437"),
        roce(),  # each in its own
        says="198.51.100.48/28 (mlx5_bond_2:1, mlx5_bond_3:1)",
        fix="fabric",
        domain="platform",
        outcome="warn",
        reported=("NVIDIA/nccl#2013",),
    ),
    Twin(
        "rails_agree_about_subnets",
        prefix(h100(), 2),
        h100(),  # all in one
        says="mlx5_2:1",
        fix="fabric",
        domain="platform",
        outcome="warn",
    ),
)

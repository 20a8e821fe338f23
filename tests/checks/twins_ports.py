"""Fixtures of the family ports."""

from typing import Any

from rig.host import KernelEvent
from rig.snapshot import Snapshot
from tests.checks.snapshots import a100, h100, roce
from tests.checks.twin import Twin, changed


def counted(now: Snapshot, hca: str, field: str = "counters", **counts: int) -> Snapshot:
    """The counters of one HCA's port, changed."""
    assert now.host is not None
    made = []
    for one in now.host.ports:
        if one.hca == hca:
            one = changed(one, **{field: tuple({**dict(getattr(one, field)), **counts}.items())})
        made.append(one)
    assert tuple(made) != now.host.ports
    return changed(now, host__ports=tuple(made))  # type: ignore[no-any-return]


def ports(now: Snapshot, hca: str, **values: Any) -> Snapshot:
    assert now.host is not None
    made = tuple(one._replace(**values) if one.hca == hca else one for one in now.host.ports)
    return changed(now, host__ports=made)  # type: ignore[no-any-return]


def lost(now: Snapshot, name: str, times: int) -> Snapshot:
    return changed(  # type: ignore[no-any-return]
        now, host__kernel_log=(KernelEvent("link-lost", "Link down", subject=name),) * times
    )


TWINS = (
    Twin(
        "port_error_counters_are_low",
        counted(h100(), "mlx5_2", symbol_error=65_535),
        counted(counted(h100(), "mlx5_2", symbol_error=12), "mlx5_4", symbol_error=70_000),  # the front-end's
        says="mlx5_2:1 symbol_error: 65535",
        fix="cable",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "no_rail_loses_more_than_its_siblings",
        counted(roce(), "mlx5_bond_3", "hw_counters", out_of_sequence=4_000_000),
        counted(roce(), "mlx5_bond_3", "hw_counters", out_of_sequence=2_000),
        says="mlx5_bond_3:1: 4000009 packets lost",
        fix="that rail",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "links_do_not_flap",
        counted(h100(), "mlx5_6", link_downed=90),
        counted(h100(), "mlx5_6", link_downed=5),
        says="mlx5_6:1 lost its link 90 times in 10 days",
        fix="cable",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "links_do_not_flap",
        ports(roce(), "mlx5_bond_2", carrier_changes=400),
        ports(roce(), "mlx5_bond_0", carrier_changes=400),  # the front-end's
        says="mlx5_bond_2:1 lost its link 200 times",
        fix="cable",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "kernel_reports_no_lost_link",
        lost(roce(), "bond4", 4),
        lost(roce(), "bond4", 2),
        says="mlx5_bond_4:1 lost its link 4 times",
        fix="cable",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "hcas_have_one_firmware",
        ports(h100(), "mlx5_7", firmware="28.35.1012"),
        ports(a100(), "mlx5_4", firmware="20.28.4512"),  # a storage card
        says="28.35.1012: mlx5_7",
        fix="flint",
        domain="host",
        outcome="warn",
    ),
)

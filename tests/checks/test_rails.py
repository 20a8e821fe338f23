"""Which devices count as the job's fabric, on machines that hold others too."""

import pytest

from checks.rails import fabric, fabric_layer, gravity, rails
from rig.expected import Expected
from rig.machine import Hca, Port
from rig.plan import Plan
from rig.snapshot import Snapshot
from tests.checks.snapshots import healthy


@pytest.mark.parametrize(
    ("name", "devices", "ports"),
    [
        ("hgx-h100-ib", 8, 8),  # of nine; one is the front-end
        ("dgx-a100", 8, 8),  # of twelve; four are storage
        ("h100-roce-bonds", 8, 8),  # of nine; one bond owns the default route
        ("aws-p4d-efa", 4, 0),  # EFA is no port that NCCL's own transport uses
        ("pod-sriov-vfs", 8, 4),  # four virtual functions are the pod's, four cards are its host's alone
        ("rtx4090-no-p2p", 0, 0),
        ("nothing", 0, 0),
    ],
)
def test_what_carries_the_jobs_traffic(name: str, devices: int, ports: int) -> None:
    now = healthy(name)
    assert (len(fabric(now)), len(rails(now))) == (devices, ports)


def test_a_pods_own_functions_stand_for_their_cards() -> None:
    own = [hca.name for hca in fabric(healthy("pod-sriov-vfs")) if hca.function == "vf"]
    assert own == ["mlx5_8", "mlx5_9", "mlx5_10", "mlx5_11"]


def hca(name: str, layer: str, state: str) -> Hca:
    return Hca(name, ports=(Port(name, 1, state, link_layer=layer),))


@pytest.mark.parametrize(
    ("ports", "layer"),
    [
        ((("InfiniBand", "DOWN"), ("InfiniBand", "DOWN"), ("Ethernet", "ACTIVE")), "InfiniBand"),
        ((("InfiniBand", "ACTIVE"), ("Ethernet", "ACTIVE"), ("Ethernet", "ACTIVE")), "InfiniBand"),
        ((("InfiniBand", "DOWN"), ("Ethernet", "ACTIVE"), ("Ethernet", "ACTIVE")), "Ethernet"),
        ((("Unknown", "ACTIVE"),), None),
        ((), None),
    ],
)
def test_the_fabrics_link_layer(ports: tuple[tuple[str, str], ...], layer: str | None) -> None:
    assert fabric_layer([hca(f"mlx5_{index}", *one) for index, one in enumerate(ports)]) == layer


def test_nobody_misses_rdma_on_a_single_node() -> None:
    alone = Snapshot(healthy("hgx-h100-ib").machine, Plan())
    assert gravity(alone) == "warn"
    assert gravity(alone._replace(expected=Expected(hcas=8))) == "fail"
    assert gravity(alone._replace(expected=Expected(gdr=True))) == "fail"

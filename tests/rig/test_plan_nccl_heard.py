"""Log lines and words of a run that went wrong, as facts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.plan.nccl import plan_nccl
from rig.plan.nccl_heard import Heard, listen
from tests.case_made import ETH0, LOCAL, V1, V2, gids, hca, kind, mlx5_table, v4
from tests.case_tree import lay_out

NETS = [
    hca("mlx5_0", "Ethernet", table=mlx5_table(1, "eth2")),
    hca(
        "mlx5_1", "Ethernet", table=gids(0, (LOCAL, V1), (LOCAL, V2), (v4(1, "cb007100"), V1), (v4(1, "cb007100"), V2))
    ),
]
MACHINE = lay_out(kind(rdma=NETS, netdevs=[ETH0])).machine


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("NET/IB : Got completion from peer with status=12 opcode=129 len=0 vendor err 129", "retries_exceeded"),
        ("NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable", "network_unreachable"),
        ("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", "gdr_disabled"),
        ("it works with index 0 only", "v2_fails"),
        ("the job hangs with P2P on", "peer_access_stalls"),
        ("NCCL_IB_GID_INDEX is not exported to the second node", "not_propagated"),
        ("connection reset by peer", "failed"),
    ],
)
def test_messages_are_understood(said: str, heard: str) -> None:
    assert getattr(listen((said,)), heard)


def test_a_good_run_says_nothing() -> None:
    quiet = ("NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:192.0.2.10<0>", "via NET/IB/0/GDRDMA", "")
    quiet += ("NCCL_IB_TIMEOUT set by environment to 22.",)
    assert listen(quiet) == Heard()


@given(st.lists(st.text(max_size=200), max_size=4))
def test_any_words_are_heard_out(words: list[str]) -> None:
    assert listen(tuple(words)) is not None
    assert plan_nccl(MACHINE, symptoms=tuple(words)).hcas == ("mlx5_0", "mlx5_1")


@pytest.mark.parametrize(
    ("said", "code", "verdict"),
    [
        ("Network is unreachable", "ROCE_ROUTE_MISSING", "misconfigured"),
        ("only v1 works, v2 fails", "ROCE_V2_UNREACHABLE", "host-fix-needed"),
        ("completion with status 12", "GID_LINK_LOCAL", "misconfigured"),
        ("GPU Direct RDMA Disabled for HCA 0", "GDR_OFF", "rdma-ok-no-gdr"),
        ("", "GID_LINK_LOCAL", "rdma-ok"),
    ],
)
def test_what_was_heard_changes_the_verdict(said: str, code: str, verdict: str) -> None:
    plan = plan_nccl(MACHINE, symptoms=(said,))
    assert plan.verdict == verdict
    assert code in {one.id for one in plan.findings}

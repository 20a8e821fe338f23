"""The user's variables, the version of NCCL, and the rule to write less."""

import json
import os
import sys

import pytest

from rig.emit import to_json
from rig.finding import DOMAINS, OUTCOMES
from rig.machine import Machine
from rig.plan import SOURCES
from rig.plan.nccl import NcclPlan, Peer, plan_nccl
from rig.plan.nccl_peers import peer_of
from rig.plan.nccl_vars import accepted, hca_limit, reads
from rig.plan.socket import nccl_interfaces
from rig.platform import Fabric, Platform, PlatformNic, Rail
from tests.case_made import ETH0, LOCAL, V2, gids, gpus, hca, kind, mlx5_table, netdev, v4
from tests.case_tree import lay_out

RAILS = [hca(f"mlx5_{at}", "Ethernet", table=mlx5_table(at + 1, f"rdma{at}")) for at in range(2)]
FRONT = hca("mlx5_10", "Ethernet", table=mlx5_table(9, "eth0"))
ROCE = lay_out(kind(gpus=gpus(2), rdma=[*RAILS, FRONT], netdevs=[ETH0, netdev("docker0", "192.0.2.99")])).machine
CHECKOUT = os.path.join(os.path.dirname(__file__), "..", "..")
OLD, WALKS = (2, 18, 1), (2, 21, 5)


def lines(plan: NcclPlan) -> dict[str, str]:
    return {one.name: str(one.value) for one in (*plan.environment, *plan.conf)}


def warned(user: dict[str, str], machine: Machine = ROCE, version: tuple[int, int, int] = WALKS) -> dict[str, object]:
    """Findings about the user's variables: id -> what would be right."""
    plan = plan_nccl(machine, user=user, nccl_version=version)
    return {one.id: one.want for one in plan.findings if one.domain == "user"}


def test_a_machine_of_which_nothing_is_known_gets_nothing() -> None:
    plan = plan_nccl(Machine())
    assert lines(plan) == {}
    assert plan.verdict == "no-network-needed"


def test_only_what_nccl_would_not_find_is_written() -> None:
    assert lines(plan_nccl(ROCE, nccl_version=WALKS)) == {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}
    assert lines(plan_nccl(ROCE, nccl_version=OLD)) == {"NCCL_IB_HCA": "=mlx5_0,mlx5_1", "NCCL_IB_GID_INDEX": "3"}
    assert plan_nccl(ROCE).environment == ()


def test_every_line_has_a_source_and_a_reason_and_every_finding_is_whole() -> None:
    platform = Platform(
        fabric=Fabric(traffic_class=106, service_level=3), rails=(Rail(0, True),), env=(("NCCL_ALGO", "Ring"),)
    )
    plan = plan_nccl(ROCE, platform=platform, user={"NCCL_IB_GID_INDEX": "2"}, nccl_version=OLD)
    assert lines(plan)["NCCL_IB_TC"] == "106"
    assert lines(plan)["NCCL_CROSS_NIC"] == "0"
    for one in (*plan.environment, *plan.conf):
        assert one.source in SOURCES and one.reason
    for found in plan.findings:
        assert found.outcome in OUTCOMES and found.domain in DOMAINS and found.text and "\n" not in found.text
    assert json.loads(to_json(plan))["verdict"] == plan.verdict


def test_the_users_variables_win() -> None:
    user = {"NCCL_IB_HCA": "mlx5_0", "NCCL_IB_GID_INDEX": "1", "NCCL_SOCKET_IFNAME": "eth0", "PATH": "/bin"}
    plan = plan_nccl(ROCE, user=user, nccl_version=OLD)
    assert not set(user) & set(lines(plan))
    assert plan.hcas == ("mlx5_0", "mlx5_1")  # what is right stays said


@pytest.mark.parametrize(
    ("user", "code", "want"),
    [
        ({"NCCL_IB_GID_INDEX": "2"}, "GID_ROCE_V1", "3"),
        ({"NCCL_IB_GID_INDEX": "1"}, "GID_LINK_LOCAL", "3"),
        ({"NCCL_IB_GID_INDEX": "40"}, "GID_LINK_LOCAL", "3"),
        ({"NCCL_IB_HCA": "mlx4"}, "HCA_FILTER_EMPTY", "=mlx5_0,mlx5_1"),
        ({"NCCL_IB_HCA": "mlx5_1"}, "HCA_NEEDS_EXACT", "=mlx5_0,mlx5_1"),
        ({"NCCL_IB_HCA": "=mlx5_10"}, "HCA_FILTER_TOO_WIDE", "=mlx5_0,mlx5_1"),
        ({"NCCL_IB_HCA": "=mlx5_0"}, "HCA_FILTER_NARROW", "=mlx5_0,mlx5_1"),
        ({"NCCL_SOCKET_IFNAME": "ens"}, "SOCKET_IF_NOT_FOUND", "=eth0"),
        ({"NCCL_NET_GDR_LEVEL": "NODE"}, "LEVEL_UNKNOWN", "PHB"),
        ({"NCCL_NET_GDR_LEVEL": "PIX"}, "GDR_LEVEL_NARROW", None),
        ({"NCCL_IB_DISABLE": "1"}, "IB_DISABLED_BY_USER", None),
        ({"NCCL_IB_ADDR_FAMILY": "af_inet6"}, "ADDR_FAMILY_UNKNOWN", None),
    ],
)
def test_a_variable_that_contradicts_the_facts_is_told(user: dict[str, str], code: str, want: str | None) -> None:
    assert warned(user)[code] == want


def test_good_variables_are_left_in_peace() -> None:
    good = {
        "NCCL_IB_HCA": "=mlx5_0,mlx5_1",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_SOCKET_IFNAME": "=eth0",
        "NCCL_P2P_LEVEL": "SYS",
    }
    assert warned(good) == {}
    assert plan_nccl(ROCE, user=good, nccl_version=WALKS).verdict == "rdma-ok"
    assert warned({"NCCL_IB_HCA": "", "NCCL_SOCKET_IFNAME": ""}) == {}


def test_loopback_is_wrong_between_nodes_only() -> None:
    machine = lay_out(kind(netdevs=[netdev("lo", "127.0.0.1", kind="loopback"), ETH0])).machine
    user = {"NCCL_SOCKET_IFNAME": "^docker"}
    assert plan_nccl(machine, user=user).verdict == "misconfigured"
    assert plan_nccl(machine, user=user, nodes=1).verdict == "no-network-needed"
    assert nccl_interfaces(machine) == ("eth0",)


def test_a_variable_that_this_nccl_does_not_read_is_refused() -> None:
    platform = Platform(env=(("NCCL_IB_FIFO_TC", "3"), ("NCCL_IB_TIMEOUT", "22")))
    plan = plan_nccl(ROCE, platform=platform, nccl_version=WALKS)
    assert "NCCL_IB_FIFO_TC" not in lines(plan)
    assert lines(plan)["NCCL_IB_TIMEOUT"] == "22"
    assert any(one.id == "NCCL_VARIABLE_UNREAD" for one in plan.findings)
    assert "NCCL_VARIABLE_UNREAD" in warned({"NCCL_IB_ADDR_FAMILY": "AF_INET6"}, version=OLD)


def test_variables_have_the_versions_of_the_tags() -> None:
    assert reads("NCCL_IB_MERGE_NICS", (2, 20, 3)) and not reads("NCCL_IB_MERGE_NICS", (2, 19, 4))
    assert reads("NCCL_MNNVL", (2, 20, 5)) and not reads("NCCL_MNNVL", (2, 21, 5))
    assert reads("NCCL_MADE_UP", (2, 21, 5)) is None
    assert reads("NCCL_NET_GDR_C2C", None) is False
    assert reads("FI_PROVIDER", None) is True
    assert accepted((), None) == ((), ())
    assert [hca_limit(version) for version in ((2, 18, 3), (2, 18, 5), None)] == [16, 32, 32]


def test_roles_of_the_platform_file_decide() -> None:
    nics = (PlatformNic("mlx5_10", role="compute", netdev="eth0"), PlatformNic("mlx5_0", role="storage"))
    plan = plan_nccl(ROCE, platform=Platform(nics=nics), nccl_version=WALKS)
    assert plan.hcas == ("mlx5_10",)
    assert lines(plan)["NCCL_IB_HCA"] == "=mlx5_10"
    absent = plan_nccl(ROCE, platform=Platform(nics=(PlatformNic("mlx5_77", role="compute"),)), nccl_version=WALKS)
    assert absent.hcas == ("mlx5_0", "mlx5_1")


def test_the_interface_is_the_one_that_reaches_the_peers() -> None:
    devs = [ETH0, netdev("data0", "198.51.100.5", note="same subnet")]
    machine = lay_out(kind(netdevs=devs)).machine
    assert plan_nccl(machine).socket_if == "eth0"
    peer = Peer("b", addresses=("198.51.100.6",))
    plan = plan_nccl(machine, peers=(peer,))
    assert (plan.socket_if, lines(plan)) == ("data0", {"NCCL_SOCKET_IFNAME": "=data0"})


def test_a_plan_can_be_the_peer_of_another() -> None:
    plan = plan_nccl(ROCE, nccl_version=WALKS)
    peer = peer_of(plan, ROCE, "b")
    assert (peer.hcas, peer.socket_if, peer.gid_index) == (("mlx5_0", "mlx5_1"), "eth0", plan.gid_index)
    assert plan_nccl(ROCE, peers=(peer,), nccl_version=WALKS).verdict == "rdma-ok"
    other = peer._replace(nccl_version=(2, 18, 1))
    assert plan_nccl(ROCE, peers=(other,), nccl_version=WALKS).verdict == "misconfigured"


def test_only_some_ports_of_a_device_are_named_with_their_port() -> None:
    two = hca("mlx4_0", port={"port": 1})
    two["ports"].append({**two["ports"][0], "port": 2, "gids": gids(0, (LOCAL, V2), (v4(1), V2))})
    machine = lay_out(kind(rdma=[two])).machine
    hcas = tuple(
        one._replace(ports=(one.ports[0], one.ports[1]._replace(link_layer="Ethernet"))) for one in machine.hcas
    )
    assert lines(plan_nccl(machine._replace(hcas=hcas))) == {"NCCL_IB_HCA": "=mlx4_0:1"}


def test_planning_imports_nothing_dear() -> None:
    import subprocess

    code = "import sys; sys.path.insert(0, sys.argv[1]); import rig.plan.nccl, rig.platform; print(*sys.modules)"
    argv = [sys.executable, "-I", "-S", "-c", code, CHECKOUT]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    dear = {"re", "json", "typing", "enum", "ipaddress", "dataclasses", "subprocess", "pathlib", "inspect", "difflib"}
    assert not dear & set(told.split())

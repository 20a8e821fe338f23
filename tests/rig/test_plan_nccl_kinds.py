"""Kinds of machines that must be planned by rule: each is laid out as kernel files, detected, and planned."""

from typing import Any

from rig.plan.nccl import NcclPlan, plan_nccl
from tests.case_made import ETH0, LOCAL, V1, V2, gids, gpus, hca, kind, mlx5_table, netdev, v4
from tests.case_tree import lay_out


def planned(case: dict[str, Any], **more: Any) -> NcclPlan:
    laid = lay_out(case)
    return plan_nccl(
        laid.machine,
        platform=laid.platform,
        user=laid.user,
        peers=laid.peers,
        nccl_version=more.get("version") or laid.version,
        nodes=laid.nodes,
        symptoms=laid.symptoms,
        unread=laid.unread,
        p2p_works=laid.p2p_works,
    )


def lines(plan: NcclPlan) -> dict[str, str]:
    return {one.name: str(one.value) for one in (*plan.environment, *plan.conf)}


def codes(plan: NcclPlan) -> set[str]:
    return {one.id for one in plan.findings}


def test_bnxt_and_erdma_tables_give_their_own_index() -> None:
    bnxt = hca("bnxt_re0", "Ethernet", table=gids(0, (LOCAL, V1), (LOCAL, V2), (v4(1), V1), (v4(1), V2)), vendor="14e4")
    assert dict(planned(kind(rdma=[bnxt])).gid_index) == {"bnxt_re0": 3}
    erdma = hca("erdma_0", "Ethernet", table=gids(0, (LOCAL, V2), (v4(2), V2)), vendor="1ded")
    plan = planned(kind("vm", rdma=[erdma]))
    assert dict(plan.gid_index) == {"erdma_0": 1}
    assert "GID_VENDOR_ORDER" in codes(plan)
    assert lines(plan) == {"NCCL_IB_GID_INDEX": "1"}
    assert lines(planned(kind("vm", rdma=[erdma]), version=(2, 21, 5))) == {}


def test_an_iwarp_only_card_is_named_and_gets_no_index() -> None:
    plan = planned(kind(rdma=[hca("irdma0", "Ethernet", table=gids(0, (LOCAL, V1)))]))
    assert plan.verdict == "degraded"
    assert "ROCE_V1_ONLY_DEVICE" in codes(plan)
    assert lines(plan) == {}


def test_qib_and_hfi_are_ordinary_infiniband() -> None:
    plan = planned(kind(rdma=[hca("qib0", port={"rate_gbps": 40})]))
    assert (plan.verdict, plan.hcas, lines(plan)) == ("rdma-ok", ("qib0",), {})
    case = kind(rdma=[hca("qib0")], container={"providers": ["mlx5"]})
    assert "IBVERBS_PROVIDER_MISSING" in codes(planned(case))


def test_pods_whose_tables_start_late_get_their_own_index() -> None:
    for start in (4, 6, 12):
        table = gids(start, (v4(9), V1), (v4(9), V2), (LOCAL, V1), (LOCAL, V2))
        case = kind("pod", rdma=[hca("mlx5_0", "Ethernet", table=table)], netdevs=[netdev("net1", "198.51.100.9")])
        plan = planned(case)
        assert dict(plan.gid_index) == {"mlx5_0": start + 1}
        assert lines(plan) == {"NCCL_IB_GID_INDEX": str(start + 1)}
        assert plan.verdict == "rdma-ok"
        assert planned(case, version=(2, 21, 5)).verdict == "degraded"
        assert lines(planned(case, version=(2, 26, 2))) == {}


def test_ipv6_only_ports_get_the_family_or_the_index() -> None:
    table = gids(0, (LOCAL, V1), (LOCAL, V2), ("2001:0db8:0000:0000:0000:0000:0000:0001", V2))
    case = kind(rdma=[hca("mlx5_0", "Ethernet", table=table)])
    assert lines(planned(case, version=(2, 20, 5))) == {"NCCL_IB_GID_INDEX": "2"}
    assert lines(planned(case, version=(2, 27, 3))) == {"NCCL_IB_ADDR_FAMILY": "AF_INET6"}
    assert lines(planned(case)) == {"NCCL_IB_GID_INDEX": "2"}


def test_ports_that_need_different_indexes_are_left_to_a_nccl_that_walks() -> None:
    early = hca("mlx5_0", "Ethernet", table=mlx5_table(1, "eth2"))
    late = hca("irdma0", "Ethernet", table=gids(0, (LOCAL, V2), (v4(2), V2), netdev="eth3"))
    third = hca("mlx5_1", "Ethernet", table=mlx5_table(3, "eth4"))
    case = kind(rdma=[early, late, third])
    walks = planned(case, version=(2, 21, 5))
    assert lines(walks) == {}
    assert walks.hcas == ("irdma0", "mlx5_0", "mlx5_1")
    old = planned(case, version=(2, 18, 1))
    assert old.hcas == ("mlx5_0", "mlx5_1")
    assert lines(old) == {"NCCL_IB_HCA": "=mlx5_0,mlx5_1", "NCCL_IB_GID_INDEX": "3"}
    assert old.verdict == "degraded"


def test_the_vlan_address_wins_only_in_the_platforms_subnet() -> None:
    table = [*gids(0, (LOCAL, V2), netdev="eth2"), *gids(1, (v4(7, "cb007100"), V2), netdev="eth2.10")]
    table += gids(2, (v4(1), V2), netdev="eth2")
    case = kind(rdma=[hca("mlx5_0", "Ethernet", table=table)])
    assert dict(planned(case).gid_index) == {"mlx5_0": 2}
    wanted = planned(case | {"expected": {"env": {"NCCL_IB_ADDR_RANGE": "203.0.113.0/24"}}})
    assert dict(wanted.gid_index) == {"mlx5_0": 1}


def test_two_networks_of_equal_weight_are_not_guessed() -> None:
    fast = [hca(f"mlx5_{index}", "Ethernet", port={"rate_gbps": 200}) for index in range(2)]
    slow = [hca(f"mlx5_{index}", "Ethernet", port={"rate_gbps": 100}) for index in range(2, 6)]
    plan = planned(kind(rdma=fast + slow))
    assert plan.hcas is None
    assert "HCA_AMBIGUOUS" in codes(plan)
    assert lines(plan) == {}
    ten = planned(kind(gpus=gpus(8), rdma=[hca(f"mlx5_{index}") for index in range(10)]))
    assert ten.hcas is None
    assert "HCA_AMBIGUOUS" in codes(ten)


def test_a_storage_port_far_from_all_gpus_is_left_out() -> None:
    rows = {f"GPU{gpu}": {f"mlx5_{nic}": "PIX" if nic == gpu else "SYS" for nic in range(5)} for gpu in range(4)}
    case = kind(gpus=gpus(4), rdma=[hca(f"mlx5_{nic}") for nic in range(5)], distance=rows)
    plan = planned(case)
    assert lines(plan) == {"NCCL_IB_HCA": "=mlx5_0,mlx5_1,mlx5_2,mlx5_3"}
    assert "STORAGE_NIC_EXCLUDED" in codes(plan)
    assert all(one.distance == "PIX" and one.within_limit for one in plan.gdr)


def test_ports_in_the_subnet_of_the_default_route_are_front_end() -> None:
    rails = [hca(f"mlx5_{at}", "Ethernet", table=mlx5_table(at, f"rdma{at}")) for at in range(4)]
    front = [
        hca(f"mlx5_{at}", "Ethernet", table=gids(0, (v4(at, "c0000200"), V2), netdev=f"eth{at - 4}")) for at in (4, 5)
    ]
    plan = planned(kind(gpus=gpus(4), rdma=rails + front, netdevs=[ETH0]))
    assert plan.hcas == ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")
    assert plan.verdict == "rdma-ok"


def test_seven_of_eight_rails_is_degraded_and_keeps_seven() -> None:
    rdma = [hca(f"mlx5_{at}") for at in range(7)] + [hca("mlx5_7", port={"state": "DOWN", "rate_gbps": 10})]
    plan = planned(kind(gpus=gpus(8), rdma=rdma))
    assert plan.verdict == "degraded"
    assert len(plan.hcas or ()) == 7
    assert {"PORT_DOWN"} <= codes(plan)


def test_an_unused_second_port_does_not_degrade() -> None:
    rdma = [hca(f"mlx5_{at}") for at in range(8)] + [hca("mlx5_8", port={"state": "DOWN"})]
    plan = planned(kind(gpus=gpus(8), rdma=rdma))
    assert plan.verdict == "rdma-ok"
    assert "PORT_DOWN" in codes(plan)


def test_a_slow_rail_stays_and_is_named() -> None:
    rdma = [hca(f"mlx5_{at}", port={"rate_gbps": 400 if at else 200}) for at in range(8)]
    plan = planned(kind(gpus=gpus(8), rdma=rdma))
    assert plan.verdict == "degraded"
    assert "RATE_MISMATCH" in codes(plan)
    assert len(plan.hcas or ()) == 8


def test_a_coherent_link_is_told_to_the_versions_that_do_not_know() -> None:
    case = kind(gpus=gpus(1, "GH200 480GB"), rdma=[hca("mlx5_0")], distance={"GPU0": {"all": "PHB"}})
    assert lines(planned(case, version=(2, 21, 5))) == {"NCCL_NET_GDR_LEVEL": "SYS"}
    assert lines(planned(case, version=(2, 26, 2))) == {"NCCL_NET_GDR_C2C": "1"}
    assert lines(planned(case, version=(2, 27, 3))) == {}
    assert {planned(case, version=one).verdict for one in ((2, 21, 5), (2, 26, 2), (2, 27, 3))} == {"rdma-ok"}


def test_geforce_and_g_instances_have_no_gdr() -> None:
    cards = kind(gpus=gpus(2, "GeForce RTX 3090", 86), rdma=[hca("mlx5_0")])
    assert planned(cards).verdict == "rdma-ok-no-gdr"
    assert "GDR_NOT_SUPPORTED_GPU" in codes(planned(cards))
    efa = hca("rdmap0s6", "Unknown", vendor="1d0f", model="efa1")
    case = kind("vm", model="AWS g6e.24xlarge", gpus=gpus(4, "L40S", 89), rdma=[efa], plugin="aws-ofi-nccl")
    plan = planned(case)
    assert plan.verdict == "rdma-ok-no-gdr"
    assert {"EFA_NEEDS_PLUGIN", "GDR_NOT_SUPPORTED_PLATFORM"} <= codes(plan)
    assert lines(plan) == {"FI_PROVIDER": "efa"}


def test_efa_without_plugin_or_without_nodes_is_degraded() -> None:
    efa = hca("rdmap0s6", "Unknown", vendor="1d0f", model="efa1")
    bare = lay_out(kind("vm", rdma=[efa])).machine
    assert plan_nccl(bare).verdict == "rdma-ok"
    assert plan_nccl(bare._replace(libraries=bare.libraries._replace(net_plugins=()))).verdict == "degraded"
    hidden = kind(
        "container", rdma=[efa | {"openable": False}], plugin="aws-ofi-nccl", container={"dev_infiniband": []}
    )
    assert {"EFA_NOT_IN_CONTAINER", "RDMA_DEVICE_NODE_MISSING"} <= codes(planned(hidden))
    assert planned(hidden).verdict == "degraded"


def test_devices_of_other_pods_are_no_fault_while_there_is_one_for_each_gpu() -> None:
    rdma = [hca("mlx5_2"), *(hca(f"mlx5_{at}", openable=False) for at in (0, 1, 3))]
    plan = planned(kind("pod", gpus=gpus(1), rdma=rdma))
    assert (plan.verdict, plan.hcas, lines(plan)) == ("rdma-ok", ("mlx5_2",), {})
    assert "RDMA_DEVICE_NODE_MISSING" in codes(plan)
    assert planned(kind("pod", gpus=gpus(2), rdma=rdma)).verdict == "degraded"


def test_a_peer_that_opens_fewer_hcas_sets_the_number() -> None:
    table = gids(0, (LOCAL, V2), (v4(2), V2))
    here = [hca(f"erdma_{at}", "Ethernet", table=table) for at in range(2)]
    there = [here[0], here[1] | {"openable": False}]
    plan = planned(kind("pod", gpus=gpus(8, "H20"), rdma=here, peer={"rdma": there}))
    assert plan.verdict == "misconfigured"
    assert "HCA_COUNT_MISMATCH" in codes(plan)
    assert lines(plan)["NCCL_IB_HCA"] == "=erdma_0"


def test_hca_names_that_differ_are_fine_until_somebody_exports_a_list() -> None:
    case = kind(rdma=[hca("mlx5_0"), hca("mlx5_3")], peer={"hcas": ["mlx5_0", "mlx5_1"]})
    assert planned(case).verdict == "rdma-ok"
    assert planned(case | {"env_seen": {"NCCL_IB_HCA": "=mlx5_0,mlx5_3"}}).verdict == "misconfigured"


def test_memlock_counts_unless_the_process_may_pin_anyway() -> None:
    rdma = [hca("mlx5_0")]
    small = planned(kind("container", rdma=rdma, container={"memlock_bytes": 65536}))
    assert small.verdict == "blocked"
    granted = kind("container", rdma=rdma, container={"memlock_bytes": 65536, "caps": ["IPC_LOCK"]})
    assert planned(granted).verdict == "rdma-ok"
    assert planned(kind("container", rdma=rdma, container={"memlock_bytes": -1})).verdict == "rdma-ok"
    assert planned(kind("container", container={"memlock_bytes": 65536})).verdict == "no-network-needed"


def test_shared_memory_is_judged_by_the_number_of_gpus() -> None:
    small = {"shm_bytes": 64 << 20}
    assert planned(kind("container", gpus=gpus(8), container=small)).verdict == "blocked"
    two = planned(kind("container", gpus=gpus(2), container=small))
    assert two.verdict == "no-network-needed"
    assert next(one.outcome for one in two.findings if one.id == "SHM_TOO_SMALL") == "warn"
    assert "SHM_TOO_SMALL" not in codes(planned(kind("container", gpus=gpus(1), container=small)))


def test_one_mig_instance_is_fine_and_two_on_a_card_are_not() -> None:
    slices = gpus(2, "A100", 80, bus_id="0000:01:00.0", mig="1g.5gb")
    assert planned(kind("container", gpus=slices)).verdict == "blocked"
    assert planned(kind("container", gpus=slices[:1])).verdict == "no-network-needed"


def test_acs_is_named_where_seen_and_suspected_where_not() -> None:
    rdma, cards = [hca("mlx5_0")], gpus(8, "V100", 70)
    seen = planned(kind(gpus=cards, rdma=rdma, kernel={"acs": "on"}))
    assert (seen.verdict, lines(seen)) == ("host-fix-needed", {"NCCL_NET_GDR_LEVEL": "LOC"})
    guessed = planned(kind(gpus=cards, rdma=rdma, symptom="training hangs as soon as GDR is used"))
    assert guessed.verdict == "host-fix-needed"
    assert "ACS_SUSPECTED" in codes(guessed)
    assert lines(guessed) == {}


def test_leftover_bridges_are_not_the_way_to_the_peers() -> None:
    bridge = netdev("br-12ab", "192.0.2.1", kind="bridge")
    plan = planned(kind(netdevs=[bridge, netdev("eth0", "198.51.100.1", default_route=True)]))
    assert plan.verdict == "misconfigured"
    assert lines(plan) == {"NCCL_SOCKET_IFNAME": "=eth0"}
    second = planned(kind(netdevs=[netdev("eth0", "198.51.100.1", default_route=True), bridge]))
    assert second.verdict == "tcp-only"
    assert lines(second) == {"NCCL_SOCKET_IFNAME": "=eth0"}


def test_an_address_on_lo_is_a_matter_for_the_host() -> None:
    lo = netdev("lo", ["127.0.0.1", "192.0.2.9"], kind="loopback")
    lan = [netdev(f"lan{at}", ipv6=f"fe80::{at + 1}", default_route=True) for at in range(2)]
    plan = planned(kind(netdevs=[lo, *lan]))
    assert plan.verdict == "host-fix-needed"
    assert "SOCKET_IF_LO_GLOBAL" in codes(plan)
    assert lines(plan) == {}


def test_a_bond_and_its_members_may_show_one_address() -> None:
    devs = [netdev(name, "192.0.2.7", note="same subnet") for name in ("eno1", "eno2")]
    devs.append(netdev("bond0", "192.0.2.7", kind="bond", default_route=True, note="same subnet"))
    plan = planned(kind(rdma=[hca("mlx5_0")], netdevs=devs))
    assert (plan.verdict, plan.socket_if) == ("rdma-ok", "bond0")


def test_a_single_node_needs_no_network() -> None:
    closed = hca("mlx5_0", "Ethernet", openable=False)
    plan = planned(kind("container", nodes=1, gpus=gpus(8), rdma=[closed], netdevs=[ETH0]))
    assert plan.verdict == "no-network-needed"
    assert all(one.outcome != "fail" for one in plan.findings)


def test_a_guest_keeps_its_providers_topology_file_only_if_it_fits() -> None:
    cards = [*gpus(2, "A100-SXM4-40GB", 80, numa=0)]
    for at, card in enumerate(cards):
        card["bus_id"] = f"000{at + 1}:00:00.0"
    rdma = [hca(f"mlx5_ib{at}", bus_id=f"010{at + 1}:00:00.0", numa=0, function="vf") for at in range(2)]
    case = kind("vm", gpus=cards, rdma=rdma, provider={"NCCL_TOPO_FILE": "<platform file>"})
    laid = lay_out(case)
    good = plan_nccl(laid.machine, platform=laid.platform)
    assert lines(good) == {"NCCL_TOPO_FILE": "/etc/rdma/topology.xml"}
    assert good.verdict == "rdma-ok"
    assert laid.platform is not None
    other = plan_nccl(laid.machine, platform=laid.platform._replace(topo_buses=("0000:00:01.0",)))
    assert lines(other) == {}
    assert other.verdict == "rdma-ok-no-gdr"
    assert "TOPO_FILE_MISMATCH" in codes(other)

"""How many ranks start here, and who they are, from facts, the world and the user's words."""

import pytest

from rig.job import Node, World
from rig.machine import UNLIMITED, Cpu, Gpu, Limits, Machine, Surroundings
from rig.plan import Plan, Setting
from rig.plan.compose import Asked, make_plan
from rig.plan.launch import LaunchPlan, place_of, plan_launch
from rig.ranks import Place
from rig.settings import Settings

EIGHT = Machine(gpus=tuple(Gpu(i) for i in range(8)), cpu=Cpu(online=192), limits=Limits(cpus=96.0))
NONE = Machine(cpu=Cpu(online=4), limits=Limits(cpus=float(UNLIMITED)))
DEFAULTS = Settings()
ALONE = World(nodes=(Node("a"),), master_addr="127.0.0.1")


def launch(machine: Machine, world: World = ALONE, settings: Settings = DEFAULTS, **environ: str) -> LaunchPlan:
    return plan_launch(machine, world, settings, environ)


def line(plan: LaunchPlan, name: str) -> Setting:
    return next(one for one in plan.ranks if one.name == name)


def test_each_gpu_gets_a_rank() -> None:
    plan = launch(EIGHT)
    assert line(plan, "local_ranks")[1:3] == (8, "detection")
    assert line(plan, "omp_num_threads").value == 12
    assert plan.gpus == 8
    assert not plan.environment and not plan.findings


def test_visible_devices_are_the_user_s_word() -> None:
    plan = launch(EIGHT, CUDA_VISIBLE_DEVICES="0,3")
    assert line(plan, "local_ranks")[1:3] == (2, "environment")
    assert plan.gpus == 2


def test_hidden_gpus_mean_cpus_and_are_said_where_it_may_be_a_mistake() -> None:
    plan = launch(EIGHT, CUDA_VISIBLE_DEVICES="9")
    assert (plan.gpus, line(plan, "local_ranks").value) == (0, 2)
    assert [one.id for one in plan.findings] == ["gpus-hidden"]
    assert not launch(EIGHT, CUDA_VISIBLE_DEVICES="").findings


def test_without_a_gpu_ranks_run_on_cpus() -> None:
    plan = launch(NONE, settings=Settings(cpu_ranks=3))
    assert line(plan, "local_ranks")[1:3] == (3, "default")
    assert line(plan, "omp_num_threads").value == 1
    assert line(plan, "gloo_socket_ifname").value == "lo"
    assert [(one.name, one.value) for one in plan.environment] == [("DS_ACCELERATOR", "cpu")]
    assert not launch(NONE, DS_ACCELERATOR="cpu").environment


def test_nodes_of_a_job_share_the_ranks() -> None:
    world = World((Node("a", 8), Node("b", 8)), 2, 1, master_addr="a", source="Slurm")
    plan = launch(EIGHT, world)
    assert line(plan, "world_size").value == 16
    assert place_of(Plan(ranks=plan.ranks)) == Place((8, 8), 1, "a", 29500)
    assert not [one for one in launch(NONE, world).ranks if one.name == "gloo_socket_ifname"]


def test_slots_of_a_hostfile_count_and_more_than_there_are_gpus_fail() -> None:
    world = World((Node("a", 4), Node("b", 8)), 2, 0, master_addr="a", source="RIG_HOSTFILE")
    plan = launch(EIGHT, world)
    assert line(plan, "local_ranks")[1:3] == (4, "environment")
    too_many = world._replace(nodes=(Node("a", 9), Node("b", 8)))
    assert [(one.id, one.outcome) for one in launch(EIGHT, too_many).findings] == [("slots-beyond-gpus", "fail")]


@pytest.mark.parametrize(("source", "outcome", "nodes"), [("platform file", "warn", 1), ("RIG_NODES", "fail", 2)])
def test_a_node_that_is_not_listed(source: str, outcome: str, nodes: int) -> None:
    world = World((Node("a"), Node("b")), 2, None, master_addr="a", source=source)
    plan = launch(EIGHT, world)
    assert [(one.id, one.outcome) for one in plan.findings] == [("node-unknown", outcome)]
    assert len(line(plan, "slots").value) == nodes
    assert (place_of(Plan(ranks=plan.ranks)) is None) == (outcome == "fail")


def test_who_is_not_listed_is_named_with_the_remedy() -> None:
    here = EIGHT._replace(surroundings=Surroundings(hostname="me"))
    world = World((Node("a"), Node("b")), 2, None, master_addr="a", source="RIG_NODES")
    (found,) = launch(here, world).findings
    assert found.text == "me is none of the 2 nodes of RIG_NODES" and "RIG_NODE_RANK" in found.fix
    (found,) = launch(here, world._replace(nodes=())).findings
    assert found.text.endswith("nothing says which of them me is")
    assert not launch(here, world, K_MPI_JOB_ROLE="launcher").findings
    assert not launch(here, world._replace(started=True)).findings


def test_nodes_that_do_not_know_where_to_meet_start_nothing() -> None:
    """Each would wait for the others at its own loopback."""
    world = World((), 2, 0, source="NNODES")
    assert place_of(Plan(ranks=launch(EIGHT, world).ranks)) is None
    assert place_of(Plan(ranks=launch(EIGHT, world._replace(master_addr="a")).ranks)) is not None


def test_the_hostfile_names_the_nodes_of_the_job_that_is_planned() -> None:
    world = World((Node("a"), Node("b", 4)), 2, 0, master_addr="a", source="platform file")
    assert make_plan(EIGHT, world, Asked()).plan.hostfile == (("a", 8), ("b", 4))
    strange = world._replace(node_index=None)  # booted on a third machine: it trains alone, with nobody's name
    assert make_plan(EIGHT, strange, Asked()).plan.hostfile == ()


def test_a_free_port_is_for_a_job_of_one_node_only() -> None:
    assert place_of(Plan(ranks=launch(EIGHT).ranks), 23456) == Place((8,), 0, "127.0.0.1", 23456)
    told = launch(EIGHT, ALONE._replace(master_port=1234), MASTER_PORT="1234")
    assert place_of(Plan(ranks=told.ranks), 23456) == Place((8,), 0, "127.0.0.1", 1234)


def test_the_only_name_of_a_list_that_is_another_node_is_told_too() -> None:
    here = EIGHT._replace(surroundings=Surroundings(hostname="me"))
    (found,) = launch(here, World((Node("a"),), 1, None, master_addr="a", source="RIG_NODES")).findings
    assert found.text == "me is not a, the only node of RIG_NODES" and "RIG_NODE_RANK" in found.fix
    (found,) = launch(here, World((Node("4"),), 1, None, master_addr="4", source="RIG_NODES")).findings
    assert "RIG_NNODES=4" in found.fix

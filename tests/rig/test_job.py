"""Who takes part: every scheduler's dialect, contradictions, size."""

import time
from collections.abc import Mapping

import pytest

from rig.finding import Finding
from rig.job import World, read_world, unusable
from rig.nodelist import Node, NodeListError, expand, hostfile_nodes


def world_of(
    environ: Mapping[str, str],
    hostname: str = "me",
    files: Mapping[str, str] | None = None,
    platform: tuple[Node, ...] = (),
) -> tuple[World, tuple[Finding, ...]]:
    return read_world(environ, hostname=hostname, read=(files or {}).get, platform_nodes=platform)


def quiet(environ: Mapping[str, str], hostname: str = "me", files: Mapping[str, str] | None = None) -> World:
    world, findings = world_of(environ, hostname, files)
    assert findings == ()
    return world


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("gpu-[01-03,20]", ("gpu-01", "gpu-02", "gpu-03", "gpu-20")),
        ("a,b", ("a", "b")),
        ("a  b\nc", ("a", "b", "c")),
        ("r[1-2]n[08-10].x", ("r1n08.x", "r1n09.x", "r1n10.x", "r2n08.x", "r2n09.x", "r2n10.x")),
        ("login,n[7]", ("login", "n7")),
        ("n[9-11]", ("n9", "n10", "n11")),
        ("", ()),
        (",,a,", ("a",)),
    ],
)
def test_node_lists_expand_as_the_scheduler_prints_them(expression: str, names: tuple[str, ...]) -> None:
    assert expand(expression) == names


@pytest.mark.parametrize(
    "bad", ["a[1-2", "a]1[", "a[2-1]", "a[x]", "a[]", "a[1-999999999]", "a[[1]]", "a[1-300]b[1-300]"]
)
def test_a_bad_node_list_is_refused_with_its_part(bad: str) -> None:
    with pytest.raises(NodeListError, match=r"a"):
        expand(bad)


def test_alone_is_a_world_of_one() -> None:
    world = quiet({})
    assert (world.node_count, world.node_index, world.source, world.started) == (1, 0, "single node", False)
    assert (world.nodes, world.master_addr, world.master_port) == ((Node("me"),), "127.0.0.1", 29500)


def test_the_plain_list_finds_this_host_with_or_without_domain() -> None:
    world = quiet({"RIG_NODES": "gpu-[01-16]"}, "gpu-07.cluster.example")
    assert (world.node_count, world.node_index, world.master_addr) == (16, 6, "gpu-01")


def test_slurm_in_a_batch_script_launches_on_its_nodes() -> None:
    environ = {
        "SLURM_JOB_NODELIST": "gpu-[01-04]",
        "SLURM_NNODES": "4",
        "SLURM_NODEID": "2",
        "SLURM_GPUS_PER_NODE": "a100:8",
        "SLURM_PROCID": "0",
        "SLURM_NTASKS": "32",
    }
    world = quiet(environ, "gpu-03")
    assert (world.node_count, world.node_index, world.started) == (4, 2, False)
    assert world.nodes[3] == Node("gpu-04", 8)


def test_a_slurm_step_with_a_task_a_rank_has_started_them() -> None:
    environ = {
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": "gpu-[1-2]",
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_NUM_TASKS": "16",
        "SLURM_PROCID": "9",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "PMI_RANK": "9",
        "PMI_SIZE": "16",
    }
    world = quiet(environ, "gpu-2")
    assert world.started and world.source == "Slurm"
    assert (world.rank, world.local_rank, world.world_size, world.local_size) == (9, 1, 16, 8)
    one_a_node = environ | {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "SLURM_LOCALID": "0", "PMI_SIZE": "2"}
    assert not quiet(one_a_node, "gpu-2").started


def test_open_mpi_has_started_the_ranks_and_its_hostfile_names_the_nodes() -> None:
    environ = {
        "OMPI_COMM_WORLD_RANK": "3",
        "OMPI_COMM_WORLD_SIZE": "4",
        "OMPI_COMM_WORLD_LOCAL_RANK": "1",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    }
    world = quiet(
        environ, "job-worker-1", {"/etc/mpi/hostfile": "job-worker-0.job slots=2\njob-worker-1.job slots=2\n"}
    )
    assert (world.started, world.rank, world.node_count, world.node_index) == (True, 3, 2, 1)
    assert world.master_addr == "job-worker-0.job"


def test_the_launcher_of_an_mpi_job_is_no_worker_and_that_is_right() -> None:
    environ = {"K_MPI_JOB_ROLE": "launcher", "HYDRA_HOST_FILE": "/etc/mpi/hostfile"}
    world = quiet(environ, "job-launcher", {"/etc/mpi/hostfile": "job-worker-0:8\njob-worker-1:8\n"})
    assert (world.source, world.node_index, world.nodes[1]) == ("Kubernetes MPIJob", None, Node("job-worker-1", 8))


def test_torchrun_has_started_the_ranks() -> None:
    environ = {
        "RANK": "11",
        "LOCAL_RANK": "3",
        "WORLD_SIZE": "16",
        "LOCAL_WORLD_SIZE": "8",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "MASTER_ADDR": "192.0.2.1",
        "MASTER_PORT": "29400",
    }
    world = quiet(environ)
    assert world.started
    assert (world.node_count, world.node_index, world.rank, world.master_addr, world.master_port) == (
        2,
        1,
        11,
        "192.0.2.1",
        29400,
    )


def test_the_names_come_from_another_source_with_as_many_nodes() -> None:
    environ = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "job-master-0", "PET_NPROC_PER_NODE": "8"}
    world, findings = world_of(environ, platform=(Node("a", 8), Node("b", 8)))
    assert (world.nodes, world.node_index, findings) == ((Node("a", 8), Node("b", 8)), 1, ())
    assert (world.source, world.master_addr) == ("Kubernetes PyTorchJob", "job-master-0")


def test_a_pod_with_rank_and_world_size_but_no_local_rank_is_a_node() -> None:
    world = quiet({"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"})
    assert (world.started, world.node_count, world.node_index, world.master_port) == (False, 4, 1, 23456)
    processes = {"RANK": "1", "WORLD_SIZE": "16", "MASTER_ADDR": "job-master-0", "PET_NPROC_PER_NODE": "8"}
    assert quiet(processes).node_count == 2


def test_an_indexed_job_names_its_pods_by_number() -> None:
    world = quiet({"JOB_COMPLETION_INDEX": "2", "NNODES": "4"}, "train-2.train-svc")
    assert (world.node_count, world.node_index) == (4, 2)
    indexed = quiet(
        {"JOB_COMPLETION_INDEX": "2", "RIG_NNODES": "4", "NODE_RANK": "2", "MASTER_ADDR": "train-0"}, "train-2"
    )
    assert indexed.nodes == tuple(Node(f"train-{place}") for place in range(4))
    _, findings = world_of({"JOB_COMPLETION_INDEX": "2", "MASTER_ADDR": "train-0"})
    assert [finding.id for finding in findings] == ["world-incomplete"]


def test_sagemaker_lists_its_hosts_in_a_variable_or_a_file() -> None:
    environ = {"SM_HOSTS": '["algo-1","algo-2"]', "SM_CURRENT_HOST": "algo-2", "SM_NUM_GPUS": "8"}
    world = quiet(environ, "ip-1")
    assert (world.nodes, world.node_index) == ((Node("algo-1", 8), Node("algo-2", 8)), 1)
    config = {"/opt/ml/input/config/resourceconfig.json": '{"current_host": "algo-2", "hosts": ["algo-1", "algo-2"]}'}
    assert quiet({}, "ip-1", config).node_index == 1
    broken = {"/opt/ml/input/config/resourceconfig.json": "{broken"}
    assert unusable(world_of({}, "ip-1", broken)[1]) is not None


def test_a_hostfile_given_and_the_default_one() -> None:
    files = {"/mine": "a slots=4\nme slots=4\n", "/job/hostfile": "x slots=8\nme slots=8\n"}
    world, findings = world_of({"RIG_HOSTFILE": "/mine"}, files=files)
    assert (world.nodes[0], world.node_index, world.source, findings) == (Node("a", 4), 1, "RIG_HOSTFILE", ())
    assert quiet({}, files=files).source == "/job/hostfile"


def test_sources_that_disagree_are_named_and_the_first_is_believed() -> None:
    environ = {"RIG_NODES": "me,b", "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_NODEID": "0"}
    world, findings = world_of(environ)
    assert world.source == "RIG_NODES"
    assert [(finding.id, finding.outcome) for finding in findings] == [("world-contradiction", "warn")]
    assert "Slurm has 4 nodes" in findings[0].text


@pytest.mark.parametrize(
    ("environ", "name", "outcome", "word"),
    [
        ({"RIG_NODES": "a[3-1]"}, "node-list", "fail", "3-1"),
        ({"RIG_NODES": "me,a;reboot"}, "node-name", "fail", "';'"),
        ({"RIG_NODES": "me,-oProxyCommand=x"}, "node-name", "fail", "dash"),
        ({"RIG_NODES": "me,a,a"}, "node-name", "fail", "twice"),
        ({"RIG_HOSTFILE": "/none"}, "node-list", "fail", "cannot be read"),
        ({"NNODES": "two", "NODE_RANK": "0"}, "node-list", "fail", "NNODES: 'two' is no number"),
        ({"PET_NNODES": "0"}, "node-list", "fail", "PET_NNODES: '0' is no number"),
        ({"NNODES": "999999999", "MASTER_ADDR": "a"}, "node-list", "fail", "999999999 nodes"),
        ({"RIG_NODES": "me", "RIG_SLOTS": "1025"}, "node-list", "fail", "1025 ranks"),
        ({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "2000"}, "node-list", "fail", "2000"),
        ({"SLURM_JOB_NODELIST": "n[2-"}, "node-list", "fail", "SLURM_JOB_NODELIST: brackets"),
        ({"VC_WORKER_HOSTS": "n[2-"}, "node-list", "fail", "VC_WORKER_HOSTS: brackets"),
        ({"SM_HOSTS": "algo-1"}, "node-list", "fail", "SageMaker: its host list"),
        ({"K_MPI_JOB_ROLE": "launcher"}, "node-list", "fail", "/etc/mpi/hostfile names no worker"),
        ({"RIG_NODES": "me", "NODE_RANK": "first"}, "job-variable", "warn", "NODE_RANK=first"),
        ({"PET_NNODES": "2", "PET_NODE_RANK": "0"}, "world-incomplete", "fail", "rank 0 listens"),
        ({"NNODES": "2", "NODE_RANK": "2", "MASTER_ADDR": "a"}, "world-contradiction", "fail", "number 2"),
        ({"RANK": "8", "LOCAL_RANK": "0", "WORLD_SIZE": "8"}, "world-contradiction", "fail", "rank 8"),
        ({"MASTER_PORT": "http", "RIG_NODES": "me"}, "world-contradiction", "warn", "MASTER_PORT=http"),
        ({"SLURM_JOB_NODELIST": "me,b", "SLURM_NNODES": "3"}, "world-contradiction", "warn", "counts 3"),
    ],
)
def test_what_does_not_fit_is_a_finding(environ: dict[str, str], name: str, outcome: str, word: str) -> None:
    _, findings = world_of(environ)
    assert [(finding.id, finding.outcome) for finding in findings] == [(name, outcome)]
    assert word in findings[0].text
    assert findings[0].fix
    assert (unusable(findings) is not None) == (name == "node-list")


def test_ranks_a_node_that_nobody_has_counted_yet_are_no_mistake() -> None:
    assert quiet({"NNODES": "1", "NODE_RANK": "0", "NPROC_PER_NODE": "gpu"}).node_count == 1


def test_ten_thousand_nodes_are_read_in_a_moment() -> None:
    start = time.process_time()
    world, findings = world_of({"RIG_NODES": "r[001-320]n[01-32]"}, "r320n32")
    elapsed = time.process_time() - start
    assert (world.node_count, world.node_index, findings) == (10240, 10239, ())
    text = "".join(f"node-{place:05} slots=8\n" for place in range(10240))
    start = time.process_time()
    assert len(hostfile_nodes(text)) == 10240
    assert elapsed + time.process_time() - start < 0.5


def test_a_hostfile_in_any_dialect() -> None:
    assert hostfile_nodes("n[1-2] slots=4\nx[2-1]\n") == (Node("n1", 4), Node("n2", 4), Node("x[2-1]"))
    assert hostfile_nodes("\ufeffa slots=2 max_slots=3\r\n# c\n\nb:4\nc\nc\n192.0.2.1 slots=1\nfe80::1\n") == (
        Node("a", 2),
        Node("b", 4),
        Node("c", 2),
        Node("192.0.2.1", 1),
        Node("fe80::1"),
    )

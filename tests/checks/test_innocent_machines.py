"""Machines of other kinds with nothing wrong: no check of the whole catalogue fails one, or must leave it unjudged."""

import pytest

from checks import evaluate
from checks.catalogue import FAMILIES, family_checks
from rig.captured import Captured, Tree
from rig.detect import detect
from rig.job import read_world
from rig.plan.compose import Asked, make_plan
from rig.root import Collected
from rig.snapshot import Snapshot
from tests.checks.healthy_image import PINS
from tests.checks.snapshots import h100, prepared, roce, rtx4090
from tests.checks.twin import changed
from tests.machines.paper import Paper
from tests.test_machine_plans import HERE

DOCKER = "00000000a80425fb"  # docker's own capabilities
CHECKS = [one for family in FAMILIES for one in family_checks(family)]


def made(tree: Tree) -> Snapshot:
    """The machine of a captured tree, planned for a job of one node, with nothing wrong."""
    root = Captured(tree)
    machine = detect(root)
    world, _ = read_world({}, hostname="node-1", read=root.read, platform_nodes=())
    return prepared(machine, make_plan(machine, world, Asked({})).plan)


def unprivileged() -> Snapshot:
    """A container on a healthy host with eight H100: the driver answers, everything else of the host is hidden."""
    now = roce()
    assert now.host is not None
    hidden = dict.fromkeys(
        ("kernel_log", "fabric_manager", "fabric_manager_version", "edac_uncorrected", "edac_corrected", "nvme"), None
    )
    pci = tuple(one._replace(acs_redirects=None) for one in now.machine.pci)
    return now._replace(host=now.host._replace(**hidden), machine=now.machine._replace(pci=pci))  # type: ignore[arg-type]


def passed_through() -> Snapshot:
    """A guest with two whole H100 and nothing else: no fabric, no NVLink, a PCI tree that the hypervisor made up."""
    paper = guest("NVIDIA H100 80GB HBM3", "2330", count=2, memory=80, capability="9.0")
    now = made(paper.done())
    assert now.host is not None
    alone = tuple(one._replace(fabric_state="not-supported", nvlink_errors=None) for one in now.host.gpus)
    return changed(now, host__gpus=alone)  # type: ignore[no-any-return]


def guest(model: str, device: str, *, count: int, memory: int, capability: str) -> Paper:
    paper = Paper(virtual=True)
    for at in range(count):
        bus = f"0000:00:{at + 5:02x}.0"
        paper.gpu("/sys/devices/pci0000:00", bus, model, device=device, memory=memory, link="2.5 16")
    nic = paper.pci("/sys/devices/pci0000:00", "0000:00:03.0", code="020000", ids="1af4:1041", link="2.5 1")
    paper.loopback()
    paper.netdev("eth0", above=f"{nic}/virtio0", ipv4="192.0.2.40/24", default=True)
    paper.driver("535.129.03")
    paper.answer(capability=capability, links=0, p2p=1)
    paper.nodes(("0-31",), 240)
    paper.kernel("5.15.0-1053-kvm")
    paper.process(memlock="unlimited", cpus="0-31", caps="000001ffffffffff", shm_gib=120)
    paper.cgroup()
    paper.dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)")
    paper.image()
    return paper


def vgpu() -> Snapshot:
    """A guest that was given a share of an A100."""
    return made(guest("GRID A100-40C", "20b0", count=1, memory=40, capability="8.0").done())


def t4() -> Snapshot:
    """A container on a small server with one T4, in a slot of eight lanes."""
    paper = Paper()
    port = paper.bridge("/sys/devices/pci0000:17", "0000:17:00.0", numa=0, link="8.0 8")
    paper.gpu(port, "0000:18:00.0", "Tesla T4", device="1eb8", numa=0, memory=15, link="8.0 16")
    paper.loopback()
    paper.netdev("eth0", ipv4="192.0.2.2/24", default=True, speed=10000, lower=7)
    paper.driver("535.161.07")
    paper.answer(capability="7.5", links=0, p2p=1, version="535.161.07")
    paper.nodes(("0-15",), 64)
    paper.kernel("5.15.0-101-generic")
    paper.file("/.dockerenv")
    paper.process(memlock="65536", cpus="0-15", caps=DOCKER, shm_gib=0.0625)
    paper.cgroup()
    paper.image()
    return made(paper.done())


def slurm() -> Snapshot:
    """A job on a host of eight H100, whose control group was given two: procfs and /dev show all eight, the driver
    counts them and refuses six."""
    tree = Captured(str(HERE / "hgx-h100-ib" / "tree.txt")).tree
    program = ("rig-nvml",)
    lines = tree.programs[program].output.splitlines()
    ours = [line for line in lines if not line[:1].isdigit() or line.startswith(("0 ", "1 "))]
    tree.programs[program] = Collected("ok", "\n".join([*ours[:-1], "denied 6", "end", ""]))
    tree.texts["/proc/self/cgroup"] = "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n"
    return made(tree)


INNOCENT = {
    "a container that sees nothing of its host": unprivileged(),
    "a guest with two GPUs passed through": passed_through(),
    "a 4090 box": rtx4090(),
    "a T4": t4(),
    "two of eight GPUs in a Slurm job": slurm(),
    "a share of an A100 (vGPU)": vgpu(),
}


@pytest.mark.parametrize("now", INNOCENT.values(), ids=list(INNOCENT))
def test_no_check_fails_an_innocent_machine(now: Snapshot) -> None:
    told = [(one, evaluate(one, now._replace(pins=PINS))) for one in CHECKS]
    bad = [
        (one.family, one.id, result.why, [finding.text for finding in result.findings])
        for one, result in told
        if result.outcome == "fail" or (result.outcome == "unknown" and one.severity == "fail")
    ]
    assert bad == []


def test_a_slurm_job_has_the_gpus_that_it_was_given() -> None:
    now = slurm()
    assert (len(now.machine.gpus), now.machine.gpus_denied, now.machine.surroundings.gpus_on_bus) == (2, 6, 8)
    assert {one.name: one.value for one in now.plan.ranks}["slots"] == (2,)
    assert h100().machine.gpus_denied is None

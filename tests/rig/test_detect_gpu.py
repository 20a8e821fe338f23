"""GPUs from files: which ones this container was given, and what the driver's texts say."""

import pytest

from rig.captured import Captured
from rig.detect import detect, gpu
from rig.machine import Machine
from tests.machines.paper import Paper

MODEL = "NVIDIA H100 80GB HBM3"


def paper(count: int = 2) -> Paper:
    made = Paper()
    for number in range(count):
        made.gpu("/sys/devices/pci0000:00", f"0000:00:{number + 5:02x}.0", MODEL, device="2330")
    made.driver("550.54.15", open_modules=True)
    return made


def look(made: Paper) -> Machine:
    return detect(Captured(made.done()), ask_driver=False)


def test_gpus_have_model_uuid_node_and_capability() -> None:
    first, second = look(paper()).gpus
    assert (first.index, first.bus_id, first.model, first.node) == (0, "0000:00:05.0", MODEL, "/dev/nvidia0")
    assert (second.index, second.node, second.capability) == (1, "/dev/nvidia1", (9, 0))
    assert first.uuid is not None and first.uuid.startswith("GPU-")
    assert first.memory_bytes is None and first.p2p is None  # only the driver tells


def test_a_container_without_gpus_sees_those_of_the_host_and_has_none() -> None:
    made = paper()
    made.tree.children["/dev"] = {"null": None, "shm": None}
    machine = look(made)
    assert machine.gpus == ()
    assert machine.surroundings.gpus_on_bus == 2
    assert machine.surroundings.nvidia_nodes == ()


def test_a_container_with_one_of_two_has_one() -> None:
    made = paper()
    del made.tree.children["/dev"]["nvidia0"]
    assert [one.node for one in look(made).gpus] == ["/dev/nvidia1"]


def test_where_dev_is_unknown_all_count() -> None:
    made = paper()
    made.tree.children["/dev"] = {"infiniband": None}
    assert len(look(made).gpus) == 2


def test_without_procfs_gpus_come_from_the_bus() -> None:
    made = paper()
    for path in [path for path in made.tree.texts if path.startswith("/proc/driver")]:
        del made.tree.texts[path]
    for path in [path for path in made.tree.children if path.startswith("/proc/driver")]:
        del made.tree.children[path]
    assert [(one.bus_id, one.model) for one in look(made).gpus] == [("0000:00:05.0", None), ("0000:00:06.0", None)]


def test_a_uuid_that_the_driver_does_not_know_yet_is_unknown() -> None:
    told = gpu.parse_information("Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-????????-????\nDevice Minor: \t 3\n")
    assert told["Model"] == "NVIDIA A100" and told["Device Minor"] == "3"
    assert "GPU UUID" not in told


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n",
            ("535.129.03", False),
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  550.54.15  Release Build  (u@h)  Tue\n",
            ("550.54.15", True),
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  525.60  X", ("525.60", False)),
        ("garbage\n", (None, None)),
        ("", (None, None)),
        (None, (None, None)),
    ],
)
def test_driver_version_and_flavour(text: str | None, driver: tuple[str | None, bool | None]) -> None:
    assert gpu.parse_driver(text) == driver


@pytest.mark.parametrize(
    ("model", "capability"),
    [
        ("NVIDIA A100-SXM4-80GB", (8, 0)),
        ("NVIDIA A10", (8, 6)),
        ("NVIDIA A10G", (8, 6)),
        ("NVIDIA H100 PCIe", (9, 0)),
        ("NVIDIA GH200 480GB", (9, 0)),
        ("NVIDIA L4", (8, 9)),
        ("NVIDIA L40S", (8, 9)),
        ("NVIDIA GeForce RTX 4090", (8, 9)),
        ("NVIDIA GeForce RTX 3090 Ti", (8, 6)),
        ("NVIDIA RTX A6000", (8, 6)),
        ("Tesla V100-SXM2-16GB", (7, 0)),
        ("Tesla T4", (7, 5)),
        ("NVIDIA B200", (10, 0)),
        ("NVIDIA GB200", (10, 0)),
        ("NVIDIA H20", (9, 0)),
        ("NVIDIA H200 NVL", (9, 0)),
        ("NVIDIA Something New", None),
        (None, None),
    ],
)
def test_capability_of_a_product(model: str | None, capability: tuple[int, int] | None) -> None:
    assert gpu.capability_of(model) == capability

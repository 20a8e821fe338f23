"""What the driver says: the program that asks it, and the reading of its answer, whole, broken off or refused."""

import ctypes
import os
import subprocess
import sys
from typing import Any

import pytest

from rig.captured import Captured
from rig.detect import detect, nvml, nvml_child
from rig.machine import Gpu, Machine
from rig.nvml import PciInfo
from rig.root import Answered, Collected, Running
from tests.machines.paper import Paper

BUSES = (b"00000000:1B:00.0", b"00000000:3D:00.0")


class Library:
    """A libnvidia-ml with two GPUs: 2 NVLinks to each other and 1 to a switch; calls that are not here are missing."""

    refused: dict[int, int] = {}  # noqa: RUF012  by index, NVML's code
    link_code: int | None = None  # of every link; None: six links are there

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlErrorString(self, code: int) -> bytes:
        words = {4: b"Insufficient Permissions", 15: b"GPU is lost", 18: b"Driver/library version mismatch"}
        return words.get(code, b"Unknown Error")

    def nvmlSystemGetDriverVersion(self, text: Any, size: Any) -> int:
        text.value = b"535.129.03"
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        handle._obj.value = index.value + 1
        return self.refused.get(index.value, 0)

    def nvmlDeviceGetPciInfo_v3(self, device: Any, info: Any) -> int:
        info._obj.busId = BUSES[device.value - 1]
        return 0

    def nvmlDeviceGetName(self, device: Any, text: Any, size: Any) -> int:
        text.value = b"NVIDIA H100 80GB HBM3"
        return 0

    def nvmlDeviceGetUUID(self, device: Any, text: Any, size: Any) -> int:
        return 3

    def nvmlDeviceGetMemoryInfo(self, device: Any, memory: Any) -> int:
        memory._obj.total = 80 << 30
        return 0

    def nvmlDeviceGetCudaComputeCapability(self, device: Any, major: Any, minor: Any) -> int:
        major._obj.value, minor._obj.value = 9, 0
        return 0

    def nvmlDeviceGetMigMode(self, device: Any, now: Any, later: Any) -> int:
        now._obj.value = 0
        return 0

    def nvmlDeviceGetEccMode(self, device: Any, now: Any, later: Any) -> int:
        now._obj.value = 1
        return 0

    def nvmlDeviceGetPersistenceMode(self, device: Any, mode: Any) -> int:
        return 3

    def nvmlDeviceGetNvLinkState(self, device: Any, link: Any, state: Any) -> int:
        state._obj.value = int(link.value < 3)
        return self.link_code or (0 if link.value < 6 else 2)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, device: Any, link: Any, kind: Any) -> int:
        kind._obj.value = 2 if link.value == 2 else 0
        return 0

    def nvmlDeviceGetNvLinkRemotePciInfo_v2(self, device: Any, link: Any, info: Any) -> int:
        info._obj.busId = BUSES[2 - device.value]
        return 0

    def nvmlDeviceGetP2PStatus(self, device: Any, other: Any, way: Any, status: Any) -> int:
        status._obj.value = 0 if way.value == 0 else device.value - 1
        return 0


def answer(library: Any, state: str = "ok") -> nvml.Answer:
    return nvml.parse(Collected(state, "".join(line + "\n" for line in nvml_child.facts(library))))


def gpus(told: nvml.Answer) -> tuple[Gpu, ...]:
    return nvml.join((Gpu(0, "0000:1b:00.0", node="/dev/nvidia0", numa=1),), told)


def test_what_the_program_prints_is_what_is_read() -> None:
    told = answer(Library())
    assert (told.state, told.driver, told.error, told.asking) == ("ok", "535.129.03", None, None)
    first, second = gpus(told)
    assert (first.bus_id, first.node, first.numa, first.model) == (
        "0000:1b:00.0",
        "/dev/nvidia0",
        1,
        "NVIDIA H100 80GB HBM3",
    )
    assert (first.memory_bytes, first.capability, first.mig, first.ecc) == (80 << 30, (9, 0), False, True)
    assert (first.persistence, first.c2c, first.uuid) == (None, None, None)
    assert (first.nvlinks, first.nvswitch, first.nvlink_peers) == (3, True, ("0000:3d:00.0",))
    assert (first.p2p, first.p2p_peers, second.p2p, second.p2p_peers) == (True, ("0000:3d:00.0",), False, ())
    assert (second.index, second.bus_id) == (1, "0000:3d:00.0")  # only the driver named it


def refusing(refused: dict[int, int]) -> Library:
    library = Library()
    library.refused = refused
    return library


def test_a_lost_gpu_is_an_error_and_the_other_still_tells() -> None:
    told = answer(refusing({1: 15}))
    assert (told.state, told.error, told.denied) == ("failed", "GPU 1: GPU is lost (NVML error 15)", None)
    assert [gpu.model for gpu in gpus(told)] == ["NVIDIA H100 80GB HBM3"]


def test_a_refusal_is_told_in_the_drivers_words_and_not_taken_for_a_loss() -> None:
    told = answer(refusing({0: 999, 1: 15}))
    assert told.error == "GPU 0: Unknown Error (NVML error 999); GPU 1: GPU is lost (NVML error 15)"


def test_gpus_of_other_jobs_are_no_error_and_not_ours() -> None:
    """nvmlDeviceGetCount_v2 counts those too that a control group keeps from this process."""
    told = answer(refusing({0: 4}))
    assert (told.state, told.error, told.denied) == ("ok", None, 1)
    assert [(gpu.bus_id, gpu.index) for gpu in gpus(told)] == [("0000:3d:00.0", 0)]


def test_a_gpu_that_no_job_has_and_that_says_nothing_stays() -> None:
    told = answer(refusing({0: 4}))
    files = (Gpu(0, "0000:1b:00.0"), Gpu(1, "0000:5e:00.0"), Gpu(2, "0000:3d:00.0"))
    assert [gpu.bus_id for gpu in nvml.join(files, told)] == ["0000:1b:00.0", "0000:3d:00.0", "0000:5e:00.0"]


def test_where_every_gpu_is_refused_nobody_has_them() -> None:
    told = answer(refusing({0: 4, 1: 4}))
    assert (told.state, told.error, told.denied) == ("failed", "Insufficient Permissions (NVML error 4)", None)
    assert [gpu.bus_id for gpu in gpus(told)] == ["0000:1b:00.0"]


@pytest.mark.parametrize(
    ("code", "links"), [(None, 3), (3, 0), (4, None), (15, None), (999, None)], ids=lambda value: str(value)
)
def test_only_a_board_that_has_no_links_has_none(code: int | None, links: int | None) -> None:
    library = Library()
    library.link_code = code
    assert [gpu.nvlinks for gpu in gpus(answer(library))] == [links, links]


def test_a_driver_that_refuses_says_why() -> None:
    library = Library()
    library.nvmlInit_v2 = lambda: 18  # type: ignore[method-assign]
    told = answer(library)
    assert (told.state, told.error) == ("failed", "Driver/library version mismatch (NVML error 18)")


def test_a_library_of_another_age_lacks_calls() -> None:
    class Old:
        def nvmlInit_v2(self) -> int:
            return 0

        def nvmlDeviceGetCount_v2(self, count: Any) -> int:
            count._obj.value = 1
            return 0

        def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
            handle._obj.value = 7
            return 0

    told = answer(Old())
    assert told.state == "ok" and told.gpus == {}


def test_an_answer_that_breaks_off_names_the_gpu_and_keeps_the_rest() -> None:
    text = "driver 535.1\nasking 0\n0 bus_id 00000000:1B:00.0\n0 name A\nasking 1\n1 bus_id 00000000:3D:00.0\n"
    told = nvml.parse(Collected("hung", text))
    assert (told.state, told.asking) == ("unresponsive", "0000:3d:00.0")
    assert [gpu.model for gpu in gpus(told)] == ["A", None]
    assert nvml.parse(Collected("hung", "driver 1\nasking 3\n")).asking == "GPU 3"
    assert nvml.parse(Collected("hung")) == nvml.Answer("unresponsive")


@pytest.mark.parametrize(
    ("collected", "state"),
    [
        (Collected("ok", "absent\nend\n"), "absent"),
        (Collected("ok", "end\n"), "ok"),
        (Collected("ok", ""), "failed"),
        (Collected("failed", ""), "failed"),
        (Collected("unasked"), None),
    ],
)
def test_states(collected: Collected, state: str | None) -> None:
    assert nvml.parse(collected).state == state


@pytest.mark.parametrize(
    "text",
    [
        "0\n",
        "-1 name x\n",
        "99999999999999 name x\n",
        "0 bus_id \0\ufffd\n0 memory -5\n0 capability 9\n0 nvlinks x\n0 mig 2\n",
        "0 bus_id 00000000:1B:00.0\n0 p2p x y\n0 nvlink\n0 memory 999999999999999999999999\nend\n",
        "error \0\nasking \0\n\ufffd\n",
        "denied\ndenied -1\ndenied x\ndenied 0\n",
    ],
)
def test_garbage_is_survived(text: str) -> None:
    for gpu in gpus(nvml.parse(Collected("ok", text))):
        assert gpu.memory_bytes is None and gpu.capability is None and gpu.nvlinks is None and gpu.mig is None


class Counting(Captured):
    """A captured machine that counts how often a program was started, and notes whether files were read before."""

    started = 0
    read_before = -1
    reads = 0

    def read(self, path: str) -> str | None:
        self.reads += 1
        return super().read(path)

    def start(self, argv: tuple[str, ...], timeout_s: float) -> Running:
        self.started += 1
        self.read_before = self.reads
        return Answered(Collected("hung", "driver 535.1\n"))


def look(paper: Paper, **asked: bool) -> tuple[Machine, Counting]:
    root = Counting(paper.done())
    return detect(root, **asked), root


def test_without_an_nvidia_device_nobody_is_asked() -> None:
    paper = Paper()
    paper.loopback()
    machine, root = look(paper)
    assert root.started == 0 and machine.nvml is None


def test_the_driver_is_asked_beside_the_reading_of_files() -> None:
    paper = Paper()
    paper.gpu("/sys/devices/pci0000:00", "0000:00:05.0", "NVIDIA L4", device="27b8")
    paper.driver()
    machine, root = look(paper)
    assert (root.started, machine.nvml, len(machine.gpus)) == (1, "unresponsive", 1)
    assert root.read_before < 5 < root.reads


def test_a_device_on_the_bus_is_enough_and_no_is_no() -> None:
    paper = Paper()
    paper.pci("/sys/devices/pci0000:00", "0000:00:05.0", code="030200", ids="10de:27b8")
    assert look(paper)[1].started == 1
    machine, root = look(paper, ask_driver=False)
    assert (root.started, machine.nvml) == (0, None)


def test_the_program_runs_without_a_library_and_in_an_interpreter_without_paths() -> None:
    program = f"import sys; sys.path.insert(0, {os.path.dirname(nvml_child.__file__)!r}); import nvml_child as child\n"
    program += "import rig.nvml; rig.nvml.LIBRARIES = (); child.main()"
    asked = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True)
    assert (done.stdout, done.stderr) == ("absent\nend\n", "")


def test_structures_have_the_sizes_of_nvml() -> None:
    assert ctypes.sizeof(PciInfo) == 68
    assert ctypes.sizeof(nvml_child.Memory) == 24

"""How GPUs are: the program that asks NVML, against a library made for it, and the reading of what it prints."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig import nvml
from rig.captured import Captured, parse
from rig.detect import gpu_health, gpu_health_child
from rig.host import GpuHealth
from rig.machine import Gpu, Machine, Surroundings
from rig.observe import observe_host
from rig.root import Answered, Collected, Running
from rig.text import bus_id

HERE = Path(__file__).parent
TWO = "asking 0\n0 bus_id 00000000:1B:00.0\n0 uuid GPU-00\nasking 1\n1 bus_id 00000000:3d:00.0\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a libnvidia-ml.so.1 whose structures a C compiler laid out."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("nvml")
    made = [compiler, "-shared", "-fPIC", "-w", "-o", str(folder / "libnvidia-ml.so.1"), str(HERE / "fake_nvml.c")]
    subprocess.run(made, check=True, timeout=60)
    return folder


def ask(library: Path, *words: str, limit_s: float = 30) -> Collected:
    """The program as rig.child runs it, but for the library."""
    environ = {"LD_LIBRARY_PATH": str(library), **dict.fromkeys(words, "1")}
    argv = [sys.executable, "-I", "-S", gpu_health_child.__file__]
    running = subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        output, errors = running.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        running.kill()
        return Collected("hung", running.communicate()[0])
    assert (running.returncode, errors) == (0, "")
    return Collected("ok", output)


def test_every_structure_and_number_is_read_as_the_library_lays_it_out(library: Path) -> None:
    told = gpu_health.parse(ask(library))
    assert (told.state, told.error) == ("ok", None)
    assert told.gpus[0] == GpuHealth(
        "0000:1b:00.0",
        uuid="GPU-00",
        vbios="96.00.74.00.01",
        gsp_firmware="550.54.15",
        ecc_pending=False,
        ecc_uncorrected_volatile=2,
        ecc_corrected_volatile=1 << 40,
        sram_uncorrected=7,
        sram_threshold_exceeded=True,
        remapped_uncorrectable=2,
        remap_pending=True,
        remap_failed=False,
        retired_pages=7,
        inforom_valid=True,
        recovery_action="reboot",
        clock_reasons=0x100000004,
        sm_clock_mhz=345,
        temperature_c=34,
        slowdown_c=87,
        pcie_width_max=16,
        bar1_bytes=128 << 30,
        compute_mode="default",
        memory_used_bytes=3 << 30,
        processes=((4711, 5), (4712, 0)),
        nvlink_errors=9,
        fabric_state="completed",
        fabric_status="Insufficient Resources (NVML error 23)",
        fabric_clique=4091,
        fabric_cluster=True,
    )
    second = told.gpus[1]
    assert (second.bus_id, second.compute_mode, second.processes) == ("0000:3d:00.0", "exclusive", ())
    assert (second.inforom_valid, second.recovery_action) == (False, "action 9")


def test_an_older_driver_is_asked_in_its_own_way(library: Path) -> None:
    first = gpu_health.parse(ask(library, "FAKE_OLD")).gpus[0]
    assert (first.fabric_state, first.fabric_status, first.fabric_clique) == ("in-progress", "success", 7)
    assert (first.fabric_cluster, first.recovery_action, first.sram_uncorrected) == (False, None, None)


def test_a_lost_gpu_is_named_and_the_other_tells(library: Path) -> None:
    told = gpu_health.parse(ask(library, "FAKE_LOST"))
    assert (told.state, told.error) == ("failed", "GPU 1: GPU is lost (NVML error 15)")
    assert [one.bus_id for one in told.gpus] == ["0000:1b:00.0"]


def test_a_gpu_of_another_job_is_no_error_and_all_of_them_are(library: Path) -> None:
    told = gpu_health.parse(ask(library, "FAKE_DENIED"))
    assert (told.state, told.error, [one.bus_id for one in told.gpus]) == ("ok", None, ["0000:1b:00.0"])
    told = gpu_health.parse(ask(library, "FAKE_DENIED_ALL"))
    assert (told.state, told.error, told.gpus) == ("failed", "other (NVML error 4)", ())


def test_the_room_for_processes_is_told_anew_to_each_call(library: Path) -> None:
    told = gpu_health.parse(ask(library, "FAKE_CROWD"))
    assert [len(one.processes or ()) for one in told.gpus] == [64, 64]


def test_a_driver_that_falls_silent_leaves_the_gpu_and_what_it_was_at(library: Path) -> None:
    told = gpu_health.parse(ask(library, "FAKE_HANG", limit_s=1.5))
    assert told.state == "unresponsive"
    assert told.error == "while 0000:3d:00.0 was asked (the last that it told: uuid)"
    assert [one.temperature_c for one in told.gpus] == [34, None]


def test_without_a_library_the_nodes_are_still_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia0", "nvidiactl", "sda"):
        (tmp_path / name).write_text("")
    (tmp_path / "nvidia-caps").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: path.endswith("0"))
    assert list(gpu_health_child.nodes(str(tmp_path))) == ["node nvidia0 1", "node nvidiactl 0"]
    assert list(gpu_health_child.nodes(str(tmp_path / "gone"))) == []
    told = gpu_health.parse(Collected("ok", "node nvidia0 1\nnode nvidiactl 0\nnode x 2\nabsent\nend\n"))
    assert (told.state, told.nodes, told.gpus) == ("absent", (("nvidia0", True), ("nvidiactl", False)), ())


def test_a_library_without_calls_tells_where_nothing_is() -> None:
    class Bare:
        def nvmlInit_v2(self) -> int:
            return 0

        def nvmlDeviceGetCount_v2(self, count: Any) -> int:
            count._obj.value = 1
            return 0

        def nvmlDeviceGetHandleByIndex_v2(self, index: Any, device: Any) -> int:
            return 0

    assert list(gpu_health_child.facts(Bare())) == ["asking 0", "end"]
    assert list(gpu_health_child.facts(object())) == ["error NVML error None", "end"]


def test_structures_have_the_sizes_of_nvml() -> None:
    kinds = (nvml.PciInfo, nvml.Memory, nvml.Bar1, nvml.Process, nvml.SramErrors, nvml.Field, nvml.Fabric)
    assert [ctypes.sizeof(kind) for kind in kinds] == [68, 40, 24, 24, 104, 40, 36]
    assert nvml.version(nvml.Memory, 2) == 0x2000028


@pytest.mark.parametrize(
    ("collected", "state", "error"),
    [
        (Collected("ok", TWO + "end\n"), "ok", None),
        (Collected("ok", TWO), "failed", "while 0000:3d:00.0 was asked (the last that it told: bus_id)"),
        (Collected("failed", ""), "failed", None),
        (Collected("hung", "node nvidia0 1\n"), "unresponsive", None),
        (Collected("hung", "asking 3\n"), "unresponsive", "while GPU 3 was asked"),
        (Collected("ok", "error Driver/library version mismatch (NVML error 18)\nend\n"), "failed", "Driver/library"),
        (Collected("unasked"), None, None),
    ],
)
def test_states(collected: Collected, state: str | None, error: str | None) -> None:
    told = gpu_health.parse(collected)
    assert told.state == state
    assert (told.error or "").startswith(error or "") and (told.error is None) is (error is None)


PLAIN = "0 1 -1 63 99999999999999999999 asking error end node absent process process_count 00000000:1B:00.0 x \0 \ufffd"
WORDS = st.sampled_from([*PLAIN.split(" "), *GpuHealth._fields])


@given(st.lists(st.lists(WORDS, max_size=5).map(" ".join) | st.text(max_size=30), max_size=30))
def test_garbage_is_survived(lines: list[str]) -> None:
    told = gpu_health.parse(Collected("ok", "\n".join(lines)))
    for one in told.gpus:
        assert bus_id(one.bus_id) == one.bus_id
        numbers = [value for value in one if isinstance(value, int)]
        assert all(0 <= value < 1 << 64 for value in numbers)
        assert all(value is None or value.isprintable() for value in (one.uuid, one.vbios, one.fabric_state))
    assert all(name.isprintable() and isinstance(opens, bool) for name, opens in told.nodes)
    assert told.error is None or "\n" not in told.error


# --- around the driver

HOST = """rig-capture 1
/proc
  modules |
    nvidia_uvm 1536000 2 - Live 0x0000000000000000
    nvidia 56500224 40 nvidia_uvm, Live 0x0000000000000000 (OE)
/proc/2
  comm = kthreadd
/proc/1200
  comm = nv-fabricmanage
/usr/lib/x86_64-linux-gnu
  libcuda.so.1 -> libcuda.so.535.129.03
  libcuda.so.535.129.03 = x
  libnvidia-ml.so.1 -> libnvidia-ml.so.535.129.03
  libnvidia-ml.so.535.129.03 = x
/sys/bus/pci/devices/0000:1b:00.0
  config =x 64 0:de10
/sys/bus/pci/devices/0000:3d:00.0
  config =x 64 0:ffffffff
$ ok nv-fabricmanager --version
    Fabric Manager version is : 535.129.03
"""
GPUS = Machine(gpus=(Gpu(0, "0000:1b:00.0"), Gpu(1, "0000:3d:00.0")))


def around(text: str) -> gpu_health.Around:
    return gpu_health.read_around(Captured(parse(text)), GPUS)


def test_what_stands_around_the_driver_of_a_host() -> None:
    libraries = tuple(f"/usr/lib/x86_64-linux-gnu/{name}.so.535.129.03" for name in ("libcuda", "libnvidia-ml"))
    expected = gpu_health.Around(("nvidia_uvm", "nvidia"), True, "535.129.03", libraries, ("0000:3d:00.0",))
    assert around(HOST) == expected


def test_no_fabric_manager_on_a_host_is_known_and_in_a_container_is_not() -> None:
    alone = HOST.replace("nv-fabricmanage", "bash")
    assert around(alone).fabric_manager is False
    assert around(alone.replace("kthreadd", "python3")).fabric_manager is None


def test_a_capture_without_libraries_does_not_say_that_the_driver_has_none() -> None:
    assert around("rig-capture 1\n") == gpu_health.Around()
    assert around("rig-capture 1\n/usr/lib64\n  libc.so.6 = x\n") == gpu_health.Around(driver_libraries=())


@pytest.mark.parametrize("text", [None, "", "\n", "Fabric Manager version is : broken", "535"])
def test_a_version_that_is_none(text: str | None) -> None:
    assert gpu_health.parse_manager_version(text) is None


class Counting(Captured):
    """Counts who is started."""

    def __init__(self) -> None:
        super().__init__(parse(HOST))
        self.started: list[str] = []

    def start(self, argv: tuple[str, ...], timeout_s: float) -> Running:
        self.started.append(argv[0])
        return Answered(Collected("ok", TWO + "end\n")) if argv[0] == "rig-nvml-health" else super().start(argv, 1)


def observed(machine: Machine) -> tuple[Any, bool]:
    root = Counting()
    host = observe_host(root, machine, {})
    return host, "rig-nvml-health" in root.started


def test_the_driver_is_asked_where_there_is_something_of_nvidias() -> None:
    host, started = observed(GPUS)
    assert started and host.nvml == "ok" and [one.bus_id for one in host.gpus] == ["0000:1b:00.0", "0000:3d:00.0"]
    assert (host.fabric_manager, host.off_bus) == (True, ("0000:3d:00.0",))
    assert observed(Machine(surroundings=Surroundings(nvidia_nodes=("nvidiactl",))))[1]
    for machine in (Machine(), GPUS._replace(nvml="unresponsive")):
        assert not observed(machine)[1]


def test_a_driver_that_was_silent_at_boot_is_not_asked_again() -> None:
    host, _ = observed(GPUS._replace(nvml="unresponsive", unresponsive_gpu="0000:3d:00.0"))
    assert (host.nvml, host.nvml_error) == ("unresponsive", "while 0000:3d:00.0 was asked")

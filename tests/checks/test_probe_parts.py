"""What probes read and ask, with stand-ins for libcuda and for perftest."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(("number", "text"), [(8902, "8.9.2"), (90100, "9.1.0"), (7605, "7.6.5"), (None, None)])
def test_cudnn_s_number_is_read(probe: Callable[[str], Any], number: int | None, text: str | None) -> None:
    assert probe("stack_import").cudnn_version(number) == text


MAPS = """\
7f00-7f01 r-xp 00000000 08:01 42     /opt/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2
7f01-7f02 r--p 00000000 08:01 42     /opt/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2
7f02-7f03 r-xp 00000000 08:01 43     /usr/lib/x86_64-linux-gnu/libcuda.so.535.161.07
7f03-7f04 r-xp 00000000 08:01 44     /usr/lib/libcudart-d0da41ae.so.11.0
7f04-7f05 r-xp 00000000 08:01 45     /usr/lib/libibverbs/libmlx5-rdmav34.so
7f05-7f06 r-xp 00000000 08:01 46     /opt/my libs/libnccl-net.so
7f06-7f07 r-xp 00000000 08:01 47     /usr/lib/libcudadebugger.so.1
7f07-7f08 rw-p 00000000 00:00 0      [heap]
7f08-7f09 rw-p 00000000 00:00 0
"""


def test_libraries_that_matter_are_found_in_the_maps_once(probe: Callable[[str], Any]) -> None:
    assert probe("library_identity").mapped(MAPS) == [
        ("libnccl", "/opt/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"),
        ("libcuda", "/usr/lib/x86_64-linux-gnu/libcuda.so.535.161.07"),
        ("libcudart", "/usr/lib/libcudart-d0da41ae.so.11.0"),
        ("libmlx5", "/usr/lib/libibverbs/libmlx5-rdmav34.so"),
        ("libnccl-net", "/opt/my libs/libnccl-net.so"),
    ]


def test_versions_come_from_nccl_s_number_and_from_file_names(probe: Callable[[str], Any]) -> None:
    identity = probe("library_identity")
    assert [identity.dotted(code) for code in (22105, 21801, 2804)] == ["2.21.5", "2.18.1", "2.8.4"]
    assert identity.version("libcuda", "/usr/lib/libcuda.so.535.161.07") == "535.161.07"
    assert identity.version("libnccl", "/nowhere/libnccl.so.2") is None


def test_the_smallest_libraries_are_hashed_first_and_none_when_time_is_over(
    probe: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = probe("library_identity")
    small, large = tmp_path / "libcudart.so.12", tmp_path / "libnccl.so.2"
    small.write_bytes(b"")
    large.write_bytes(bytes(1 << 20))
    paths = [str(large), str(small), str(tmp_path / "gone")]
    assert {path: len(made) for path, made in identity.hashes(paths, 60).items()} == {str(small): 64, str(large): 64}
    assert list(identity.hashes(paths, -1)) == [str(small)]


LOG = """\
node-1:71:99 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
node-1:71:99 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:192.0.2.7<0>
node-1:71:99 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA
node-1:72:98 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/IB/1/Shared
"""


def test_nccl_s_log_says_which_way_the_data_took(probe: Callable[[str], Any]) -> None:
    read_log = probe("nccl_log").read_log
    told = read_log(LOG)
    assert told["transports"] == ["NET"] and told["nets"] == ["IB"] and told["nccl"] == "2.21.5"
    assert told["gdr"] is False  # not on every channel
    assert told["hcas"] == "[0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]"
    assert read_log(LOG.replace("/Shared", "/GDRDMA/Shared"))["gdr"] is True


@pytest.mark.parametrize(
    ("line", "transports", "nets"),
    [
        ("Channel 03/0 : 2[2] -> 3[3] via P2P/CUMEM/read", ["P2P"], []),
        ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", ["SHM"], []),
        ("Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0", ["NET"], ["Socket"]),
        ("Channel 00/0 : 0[0] -> 1[0] [send] via NET/AWS Libfabric/0", ["NET"], ["AWS"]),
        ("Using network Socket", [], []),
    ],
)
def test_each_transport_has_its_line(
    probe: Callable[[str], Any], line: str, transports: list[str], nets: list[str]
) -> None:
    told = probe("nccl_log").read_log(f"node-1:71:99 [0] NCCL INFO {line}\n")
    assert (told["transports"], told["nets"]) == (transports, nets)


def test_warnings_are_kept_once_and_not_all(probe: Callable[[str], Any]) -> None:
    log = probe("nccl_log")
    text = "".join(f"node-1:7:9 [0] file.cc:{index // 2} NCCL WARN no\n" for index in range(100))
    assert len(log.read_log(text)["log"]) == log.LINES
    assert log.read_log("")["gdr"] is None and log.read_log("")["nvls"] is False


@pytest.mark.parametrize(("memory", "size"), [(80 << 30, 4 << 30), (24 << 30, 2 << 30), (1 << 20, 1 << 20)])
def test_the_message_fits_the_memory(probe: Callable[[str], Any], memory: int, size: int) -> None:
    assert probe("nccl_node").message_bytes(memory) == size


def test_the_pcie_link_is_read_as_it_is_now(probe: Callable[[str], Any], tmp_path: Path) -> None:
    link = probe("gpu_copy").link
    (tmp_path / "0000:19:00.0").mkdir()
    (tmp_path / "0000:19:00.0" / "current_link_speed").write_text("32.0 GT/s PCIe\n")
    (tmp_path / "0000:19:00.0" / "current_link_width").write_text("16\n")
    assert link("0000:19:00.0", str(tmp_path)) == {"pcie_gen_load": 5, "pcie_width_load": 16}
    (tmp_path / "0000:19:00.0" / "current_link_speed").write_text("Unknown\n")
    (tmp_path / "0000:19:00.0" / "current_link_width").write_text("0\n")
    nothing = {"pcie_gen_load": None, "pcie_width_load": None}
    assert link("0000:19:00.0", str(tmp_path)) == link("0000:3b:00.0", str(tmp_path)) == nothing


class StandIn:
    """libcuda with so many GPUs; `refuse` names calls and the error that they answer with."""

    def __init__(self, count: int, **refuse: int) -> None:
        self.count, self.refuse = count, refuse

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *words: self.refuse.get(name) or self.answer(name, words)

    def answer(self, name: str, words: tuple[Any, ...]) -> int:
        if name == "cuDeviceGetCount":
            words[0]._obj.value = self.count
        elif name == "cuDeviceGetPCIBusId":
            words[0].value = b"0000:3B:00.0"
        elif name == "cuGetErrorName":
            words[1]._obj.value = {802: b"CUDA_ERROR_SYSTEM_NOT_READY"}.get(words[0])
        elif name == "cuMemcpyDtoH_v2":
            words[0][:] = range(1, 257)
        return 0


@pytest.fixture
def ask(probe: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    def told(count: int, **refuse: int) -> dict[str, Any]:
        gpu_init = probe("gpu_init")
        monkeypatch.setattr(gpu_init.ctypes, "CDLL", lambda name: StandIn(count, **refuse))
        gpu_init.main()
        merged: dict[str, Any] = {"gpus": []}
        for one in gpu_init.said:
            merged = {**merged, **one, "gpus": [*merged["gpus"], *one.get("gpus", [])]}
        return merged

    return told


def test_each_gpu_that_works_is_told(ask: Callable[..., dict[str, Any]]) -> None:
    told = ask(2)
    assert [(one["index"], one["bus_id"], one["code"], one["step"]) for one in told["gpus"]] == [
        (0, "0000:3b:00.0", 0, None),
        (1, "0000:3b:00.0", 0, None),
    ]
    assert told["driver"]["code"] == 0 and told["asking"] is None


def test_the_driver_s_refusal_keeps_its_number_and_name(ask: Callable[..., dict[str, Any]]) -> None:
    told = ask(8, cuInit=802)
    assert (told["driver"]["code"], told["driver"]["name"]) == (802, "CUDA_ERROR_SYSTEM_NOT_READY")
    assert told["gpus"] == [] and told["asking"] is None


@pytest.mark.parametrize(
    ("call", "code"), [("cuDevicePrimaryCtxRetain", 802), ("cuMemAlloc_v2", 2), ("cuModuleLoadData", 222)]
)
def test_a_gpu_s_refusal_names_the_step(ask: Callable[..., dict[str, Any]], call: str, code: int) -> None:
    [gpu] = ask(1, **{call: code})["gpus"]
    assert (gpu["code"], gpu["step"]) == (code, call.partition("_")[0]) and gpu["name"]


def test_a_kernel_that_computes_nothing_is_found(
    ask: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = StandIn.answer
    monkeypatch.setattr(StandIn, "answer", lambda self, name, words: 0 if "DtoH" in name else answer(self, name, words))
    [gpu] = ask(1)["gpus"]
    assert gpu["code"] == -1 and "result is wrong" in gpu["name"]


def test_without_libcuda_the_probe_is_absent(probe: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    gpu_init = probe("gpu_init")
    monkeypatch.setattr(ctypes, "CDLL", missing)
    gpu_init.main()
    assert "libcuda.so.1" in gpu_init.said[-1]["absent"]


def test_rdma_ports_that_are_up_are_tried(
    probe: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rdma = probe("rdma_loopback")
    for hca, driver, state in (
        ("mlx5_0", "mlx5_core", "4: ACTIVE"),
        ("mlx5_1", "mlx5_core", "1: DOWN"),
        ("efa_0", "efa", "4: ACTIVE"),
    ):
        port = tmp_path / hca / "ports" / "1"
        (port / "gid_attrs" / "types").mkdir(parents=True)
        (tmp_path / hca / "device").mkdir()
        os.symlink(f"/sys/bus/pci/drivers/{driver}", tmp_path / hca / "device" / "driver")
        (port / "state").write_text(state + "\n")
        (port / "rate").write_text("400 Gb/sec (4X NDR)\n")
        (port / "link_layer").write_text("Ethernet\n")
        (port / "gid_attrs" / "types" / "0").write_text("IB/RoCE v1\n")
        (port / "gid_attrs" / "types" / "3").write_text("RoCE v2\n")
    monkeypatch.setattr(rdma, "DEVICES", str(tmp_path))
    assert rdma.active_ports() == [{"hca": "mlx5_0", "port": 1, "rate_gbps": 400.0}]
    assert rdma.gid_words("mlx5_0", 1) == ["-x", "3"]
    assert rdma.gid_words("mlx5_9", 1) == []


PERFTEST = """#!/bin/sh
case "$*" in
    *127.0.0.1*) [ -e "$0.up" ] || { : > "$0.up"; echo "Couldn't connect to 127.0.0.1:18515"; exit 1; }
        echo ' #bytes  #iterations  BW peak[Gb/sec]  BW average[Gb/sec]  MsgRate[Mpps]'
        echo ' 1048576 5000 391.9 390.04 0.05' ;;
    --help) echo ' -d, --ib-dev=<dev>  Use IB device <dev>' ;;
    *mlx5_1*) echo "Failed to create QP"; exit 1 ;;
    *) exec sleep 20 ;;
esac
"""


def test_client_and_server_run_until_there_is_a_rate(
    probe: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rdma = probe("rdma_loopback")
    path = tmp_path / "ib_write_bw"
    path.write_text(PERFTEST)
    path.chmod(0o755)
    monkeypatch.setattr(rdma, "PROGRAM", str(path))
    assert rdma.measure("mlx5_0", 1, None) == {"gbps": 390.0, "error": None}
    assert rdma.absent(gdr=True) == "perftest was built without CUDA"
    path.write_text(PERFTEST.replace("390.04", "x"))
    assert rdma.measure("mlx5_1", 1, None)["error"] == "Failed to create QP"
    monkeypatch.setattr(rdma, "PROGRAM", str(tmp_path / "none"))
    assert "is not there" in rdma.absent(gdr=False)


class Nvml:
    """libnvidia-ml with one GPU that is warm and slowed down by its power limit."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        values = {"nvmlDeviceGetClockInfo": 1410, "nvmlDeviceGetCurrentClocksThrottleReasons": 4}
        values["nvmlDeviceGetTemperature"] = 71

        def answer(*words: Any) -> int:
            if name == "nvmlDeviceGetHandleByPciBusId_v2" and words[0] != b"0000:19:00.0":
                return 6  # not found
            if name in values:
                words[-1]._obj.value = values[name]
            return 0

        return answer


def test_clocks_are_asked_of_nvml_by_bus_id(probe: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    devices = probe("devices")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Nvml())
    watcher = devices.Watcher()
    assert watcher.look("0000:19:00.0") == {"sm_clock_mhz": 1410, "reasons": 4, "temperature_c": 71}
    assert set(watcher.look("0000:3b:00.0").values()) == {None}


def test_gpus_are_counted_without_torch(probe: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    devices = probe("devices")
    monkeypatch.setattr(devices.sys, "argv", ["probe"])
    monkeypatch.setattr(ctypes, "CDLL", lambda name: StandIn(8))
    assert devices.count() == 8 and devices.bus_id(3) == "0000:3b:00.0"
    monkeypatch.setattr(ctypes, "CDLL", lambda name: StandIn(8, cuInit=100))
    assert devices.count() == 0 and devices.bus_id(3) == "GPU 3"
    monkeypatch.setattr(devices.sys, "argv", ["probe", "--rehearse", "2"])
    assert devices.count() == 2

"""The probes as programs in the image: what needs no GPU measures, what needs one is rehearsed or has a stand-in."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.running import merged
from rig.pins import read_pins

PINS = read_pins(Path(__file__).resolve().parent.parent.parent / "pins.toml").args["deepspeed"]
FOLDER = "/opt/rig/checks/probes"
NCCL = "/opt/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"
STAND_IN = Path(__file__).parent / "programs" / "libcuda_stand_in.c"

pytestmark = pytest.mark.container

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def told(docker: Any) -> Run:
    """Run a shell's line in a container; all that the probe told in it."""

    def run(line: str, *options: str, code: int = 0) -> Any:
        done = docker.run("-c", line, options=["--entrypoint", "sh", *options], seconds=300)
        assert done.code == code, done.err
        assert all(line.startswith("{") for line in done.out.splitlines()), done.out
        return merged(done.out)

    return run


def test_the_stack_is_what_the_pins_say(told: Run) -> None:
    data = told(f"python {FOLDER}/stack_import.py")
    assert data["torch"].partition("+")[0] == PINS["TORCH_VERSION"] and data["torch_cuda"] == PINS["CUDA_VERSION"]
    assert data["deepspeed"] == PINS["DEEPSPEED_VERSION"] and data["cudnn"] == PINS["CUDNN_VERSION"]
    assert not data["errors"]
    assert {"sm_80", "sm_90"} <= set(data["arch_list"])


def test_the_mapped_libraries_are_named_by_what_they_say_themselves(told: Run) -> None:
    data = told(f"python {FOLDER}/library_identity.py", "--network", "none")
    found = {one["name"]: one for one in data["libraries"]}
    assert found["libnccl"]["path"] == NCCL and found["libnccl"]["version"] == PINS["NCCL_VERSION"]
    assert len(found["libnccl"]["sha256"]) == 64
    assert found["libcudart"]["version"] == PINS["CUDA_VERSION"] and found["libibverbs"]["version"]
    assert data["collective"] == "gloo" and data["nccl_static"] is False
    assert data["verbs"] is True and not data["verbs_devices"]


def test_an_nccl_that_is_preloaded_is_the_one_that_is_told(told: Run) -> None:
    data = told(f"cp {NCCL} /tmp/libnccl.so.2; LD_PRELOAD=/tmp/libnccl.so.2 python {FOLDER}/library_identity.py")
    assert "/tmp/libnccl.so.2" in [one["path"] for one in data["libraries"] if one["name"] == "libnccl"]


def test_shm_is_touched_as_far_as_it_goes(told: Run) -> None:
    data = told(f"/usr/bin/python3 -I -S {FOLDER}/shm.py; ls -A /dev/shm", "--shm-size", "32m")
    assert data["wanted_bytes"] == data["touched_bytes"] == 32 << 20 and data["error"] is None


def test_shm_without_memory_behind_it_is_found(told: Run) -> None:
    """statvfs promises 1 GiB, the control group has 128 MiB: only whoever fills it knows."""
    line = f"/usr/bin/python3 -I -S {FOLDER}/shm.py"
    data = told(line, "--shm-size", "1g", "--memory", "128m", "--memory-swap", "128m")
    assert data["wanted_bytes"] == 1 << 30 and data["touched_bytes"] < 128 << 20
    assert "no memory behind it" in data["error"]


def test_the_disk_is_measured_and_left_clean(told: Run) -> None:
    data = told(f"cd /workspace && /usr/bin/python3 -I -S {FOLDER}/disk.py && ls -A")
    assert data["path"] == "/workspace" and data["error"] is None
    assert data["write_bytes_per_s"] > 1e6 and data["read_bytes_per_s"] > 1e6


def test_a_folder_that_cannot_be_written_is_told(told: Run) -> None:
    data = told(f"/usr/bin/python3 -I -S {FOLDER}/disk.py", "--read-only")
    assert "Read-only file system" in data["error"]


def test_zero3_trains_on_the_cpu(told: Run) -> None:
    data = told(f"python {FOLDER}/zero3_step.py", "--network", "none")
    assert data["codes"] == (0,) and data["device"] == "cpu" and data["ranks"] == 1
    assert len(data["losses"]) == 20 and data["losses"][-1] < data["losses"][0] / 5
    assert data["tokens_per_s"] > 100


def test_a_training_that_dies_is_quoted(told: Run) -> None:
    data = told(
        f"mkdir /tmp/broken && echo 'raise ImportError(42)' >/tmp/broken/deepspeed.py && "
        f"PYTHONPATH=/tmp/broken python {FOLDER}/zero3_step.py"
    )
    assert data["codes"] == (1,) and data["error"] == "rank 0: ImportError: 42" and "losses" not in data


def test_ops_are_named_and_none_is_compiled_unasked(told: Run) -> None:
    data = told(f"python {FOLDER}/deepspeed_ops.py")
    ops = {one["name"]: one for one in data["ops"]}
    assert ops["cpu_adam"]["compatible"] is True and ops["cpu_adam"]["installed"] is False
    assert ops["cpu_adam"]["loads"] is None


@pytest.mark.parametrize("program", ["gpu_memory", "gpu_matmul", "gpu_copy"])
def test_what_measures_gpus_is_rehearsed_on_cpus(told: Run, program: str) -> None:
    data = told(f"python {FOLDER}/{program}.py --rehearse 2")
    assert [one["bus_id"] for one in data["gpus"]] == ["rehearsal 0", "rehearsal 1"] and data["asking"] is None
    if program == "gpu_matmul":
        assert len({one["digest"] for one in data["gpus"]}) == 1 and all(one["stable"] for one in data["gpus"])
        assert len(data["together"]) == 2


def test_one_wrong_number_changes_the_digest(told: Run) -> None:
    change = "import torch; from gpu_matmul import digest; a = torch.randn(64, 64).bfloat16(); b = a.clone()"
    compare = "b[3, 5] *= 2; assert digest(a) == digest(a.clone()) != digest(b)"
    assert told(f'cd {FOLDER} && python -c "{change}; {compare}"') == {}


def test_pairs_and_collectives_are_rehearsed_on_cpus(told: Run) -> None:
    pairs = told(f"python {FOLDER}/gpu_p2p.py --rehearse 2")["pairs"]
    assert [(one["a"], one["right"]) for one in pairs] == [("rehearsal 0", True), ("rehearsal 1", True)]
    data = told(f"python {FOLDER}/nccl_node.py --network --rehearse 2", "--network", "none")
    assert data["codes"] == (0, 0) and data["right"] is True and data["busbw_gb_s"] > 0


BUILD = "g++ -x c -shared -fPIC -o /tmp/libcuda.so.1 /stand_in.c && LD_LIBRARY_PATH=/tmp"
ASK = f"/usr/bin/python3 -I -S {FOLDER}/gpu_init.py"
WITH_STAND_IN = ("--volume", f"{STAND_IN}:/stand_in.c:ro")


def test_each_gpu_is_asked_as_the_driver_wants_it(told: Run) -> None:
    data = told(f"{BUILD} {ASK}", *WITH_STAND_IN)
    assert [(one["bus_id"], one["code"]) for one in data["gpus"]] == [("0000:19:00.0", 0), ("0000:3b:00.0", 0)]


def test_a_gpu_that_refuses_is_named_with_cuda_s_own_number(told: Run) -> None:
    second = told(f"{BUILD} STAND_IN_SECOND=802 {ASK}", *WITH_STAND_IN)["gpus"][1]
    assert (second["code"], second["name"]) == (802, "CUDA_ERROR_SYSTEM_NOT_READY")
    driver = told(f"{BUILD} STAND_IN_INIT=999 {ASK}", *WITH_STAND_IN)["driver"]
    assert (driver["code"], driver["step"]) == (999, "cuInit")


def test_a_gpu_that_hangs_was_announced(told: Run) -> None:
    data = told(f"{BUILD} STAND_IN_SECOND=-1 timeout -s KILL 2 {ASK}", *WITH_STAND_IN, code=137)
    assert data["asking"] == "0000:3b:00.0" and len(data["gpus"]) == 1


def test_the_kernel_is_ptx_that_can_be_assembled(told: Run) -> None:
    write = "import gpu_init; open('/tmp/kernel', 'wb').write(gpu_init.KERNEL)"
    assemble = "$(find /opt/venv -name ptxas | head -n 1) -arch $arch /tmp/kernel -o /tmp/made || exit 1"
    line = f'cd {FOLDER} && python -c "{write}" && for arch in sm_50 sm_70 sm_80 sm_90; do {assemble}; done'
    assert told(line) == {}


def test_without_adapters_perftest_has_nothing_to_do(told: Run) -> None:
    probe = f"PYTHONPATH=/opt/rig /usr/bin/python3 {FOLDER}/rdma_loopback.py"
    assert told(probe) == {"ports": (), "asking": None}
    assert told(f"{probe} --gdr")["absent"] == "perftest was built without CUDA"

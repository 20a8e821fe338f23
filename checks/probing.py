"""The probe programs: what files cannot say, measured by children with a deadline (checks/probes/).

A probe prints JSON objects, one a line, as soon as each is known; they are merged into one (lists are joined), so that
one that never ends has still told what it knew. It ends with 0 when it could do its work, whatever it found.

Most say what they do at the moment as `asking` (None at the end), so that one that is stuck names the GPU or the pair
of GPUs. One that lacks a tool or a library says so as `absent`: the reason. A value that could not be had is None.
"""

from checks import Need
from checks.needs import GPU, GPUS, PERFTEST, TORCH
from rig.lean import NamedTuple


class ProbeProgram(NamedTuple):
    """A program in checks/probes. `at`: the first level that runs it; `needs`: what must be there; `driver`: it may
    touch the NVIDIA driver, so nothing of the kind is started after one that never ended; `alone`: it measures rates,
    so nothing may run beside it; `python`: "user" for the environment with torch, "rig" for the system's."""

    name: str
    program: str
    at: str
    timeout_s: float
    needs: tuple[Need, ...] = ()
    driver: bool = False
    alone: bool = False
    python: str = "user"
    args: tuple[str, ...] = ()


# In the order in which they are told. What each prints:
# stack_import      torch, torch_cuda, cudnn, arch_list, deepspeed, errors
# library_identity  libraries [name, path, version, sha256], nccl_static, verbs, verbs_error, verbs_devices, collective
# gpu_init          driver {code, name, seconds}, gpus [index, bus_id, code, name, step, seconds]
# shm               wanted_bytes, touched_bytes, seconds, error
# gpu_memory        gpus [bus_id, copy_gb_s, bytes]
# gpu_matmul        gpus [bus_id, model, bf16_tflops, fp16_tflops, sm_clock_mhz, reasons, temperature_c,
#                   digest, stable], together [bus_id, kind, tflops, sm_clock_mhz, reasons, temperature_c]
# gpu_copy          gpus [bus_id, h2d_gb_s, d2h_gb_s, pcie_gen_load, pcie_width_load]
# gpu_p2p           pairs [a, b, claimed, right, gb_s, error]
# nccl_node         gpus, bytes, seconds, algbw_gb_s, busbw_gb_s, right, codes, transports, nets, gdr, hcas,
#                   nvls, nccl, log, error
# nccl_network      the same, through the network transport in one node
# rdma_loopback     ports [hca, port, rate_gbps, gbps, error]
# gdr_loopback      the same, GPU memory at the sending side's HCA
# deepspeed_ops     ops [name, compatible, installed, loads, seconds, error]
# deepspeed_build   the same, with CPUAdam compiled where it is not installed
# zero3_step        ranks, device, codes, losses, tokens_per_s, seconds, error
# disk              path, bytes, write_bytes_per_s, read_bytes_per_s, free_bytes, error
PROBES: tuple[ProbeProgram, ...] = (
    ProbeProgram("stack_import", "stack_import.py", "quick", 60, (TORCH,)),
    # Without persistence cuInit takes seconds for each GPU; what hangs must be told before the time of full is over.
    ProbeProgram("gpu_init", "gpu_init.py", "quick", 45, (GPU,), driver=True, python="rig"),
    ProbeProgram("library_identity", "library_identity.py", "quick", 60, (TORCH,), driver=True),
    ProbeProgram("shm", "shm.py", "quick", 20, python="rig"),
    ProbeProgram("deepspeed_ops", "deepspeed_ops.py", "full", 120, (TORCH,), driver=True),
    ProbeProgram("gpu_memory", "gpu_memory.py", "full", 60, (GPU, TORCH), driver=True, alone=True),
    ProbeProgram("gpu_matmul", "gpu_matmul.py", "full", 90, (GPU, TORCH), driver=True, alone=True),
    ProbeProgram("gpu_copy", "gpu_copy.py", "full", 60, (GPU, TORCH), driver=True, alone=True),
    ProbeProgram("gpu_p2p", "gpu_p2p.py", "full", 60, (GPUS, TORCH), driver=True, alone=True),
    ProbeProgram("nccl_node", "nccl_node.py", "full", 90, (GPUS, TORCH), driver=True, alone=True),
    ProbeProgram(
        "nccl_network", "nccl_node.py", "full", 90, (GPUS, TORCH), driver=True, alone=True, args=("--network",)
    ),
    ProbeProgram("rdma_loopback", "rdma_loopback.py", "full", 60, (PERFTEST,), alone=True, python="rig"),
    ProbeProgram(
        "gdr_loopback",
        "rdma_loopback.py",
        "full",
        60,
        (PERFTEST, GPU),
        driver=True,
        alone=True,
        python="rig",
        args=("--gdr",),
    ),
    ProbeProgram("zero3_step", "zero3_step.py", "full", 120, (TORCH,), driver=True, alone=True),
    ProbeProgram("deepspeed_build", "deepspeed_ops.py", "deep", 600, (TORCH,), driver=True, args=("--build",)),
    ProbeProgram("disk", "disk.py", "full", 60, alone=True, python="rig"),
)

"""What every probe measures on a healthy machine: the figures of its kind, a little different on each device."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from checks.floors import kind_of, pcie
from rig.machine import Gpu
from rig.snapshot import Probe, Snapshot

NCCL = "/opt/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"
CUDART = "/opt/venv/lib/python3.11/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12"
PROVIDERS = {"mlx5_core": "mlx5", "mlx4_core": "mlx4", "efa": "efa", "irdma": "irdma", "bnxt_en": "bnxt_re"}


class Rates(NamedTuple):
    """Of one GPU: GB/s and TFLOP/s; `busbw` of all in the node, `pair` of a copy between two."""

    hbm: float
    bf16: float
    fp16: float
    busbw: float
    pair: float
    clock: int  # MHz under load


RATES = {
    "h100-sxm": Rates(2540, 640, 655, 474, 396, 1755),
    "a100-sxm-40": Rates(1330, 248, 250, 231, 240, 1410),
    "rtx-4090": Rates(910, 152, 155, 20.4, 12.1, 2610),
}
OTHERS = Rates(700, 100, 100, 15, 12, 1755)


def healthy_probes(now: Snapshot) -> Mapping[str, Probe]:
    told = {**_stack(now), **_files(), **_training(now)}
    if now.machine.gpus:
        told.update(_gpus(now))
    if len(now.machine.gpus) > 1:
        told.update(_several(now))
    if now.machine.hcas:
        told.update(_rdma(now))
    return {name: Probe(name, "ok", {**data, "asking": None}, seconds=2.0) for name, data in told.items()}


def rates_of(now: Snapshot) -> Rates:
    kind = kind_of(now.machine, now.machine.gpus[0].bus_id)
    return RATES.get(kind.id if kind else "", OTHERS)


def _spread(rate: float, index: int) -> float:
    """GPUs of one kind differ by a few tenths of a percent."""
    return round(rate * (1 - 0.001 * (index % 4)), 2)


def _stack(now: Snapshot) -> dict[str, dict[str, Any]]:
    providers = {PROVIDERS.get(hca.driver or "", "mlx5") for hca in now.machine.hcas}
    driver = now.machine.kernel.driver
    files = [
        ("libnccl", NCCL, "2.21.5"),
        ("libcudart", CUDART, "12.1"),
        ("libibverbs", "/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0", "1.14.44.0"),
        *((f"lib{name}", f"/usr/lib/x86_64-linux-gnu/libibverbs/lib{name}-rdmav34.so", None) for name in providers),
    ]
    if now.machine.gpus and driver:
        files.append(("libcuda", f"/usr/lib/x86_64-linux-gnu/libcuda.so.{driver}", driver))
    arch = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
    torch = {"torch": "2.1.2+cu121", "torch_cuda": "12.1", "cudnn": "8.9.2", "arch_list": arch, "deepspeed": "0.12.6"}
    libraries = [{"name": name, "path": path, "version": version, "sha256": "00"} for name, path, version in files]
    return {
        "stack_import": {**torch, "errors": ()},
        "library_identity": {
            "libraries": tuple(libraries),
            "nccl_static": False,
            "nccl_built": True,
            "collective": "nccl" if now.machine.gpus else "gloo",
            "verbs": True,
            "verbs_devices": tuple(hca.name for hca in now.machine.hcas),
        },
        "deepspeed_ops": {"ops": _ops(built=False)},
        "deepspeed_build": {"ops": _ops(built=True)},
    }


def _ops(*, built: bool) -> tuple[dict[str, Any], ...]:
    loads = {"loads": True if built else None, "seconds": 34.0 if built else None, "error": None}
    return ({"name": "cpu_adam", "installed": False, "compatible": True, **loads},)


def _files() -> dict[str, dict[str, Any]]:
    disk = {"write_bytes_per_s": 1_900_000_000, "read_bytes_per_s": 3_100_000_000, "free_bytes": 800 << 30}
    return {
        "shm": {"wanted_bytes": 1 << 30, "touched_bytes": 1 << 30, "seconds": 0.4, "error": None},
        "disk": {"path": "/workspace", "bytes": 256 << 20, **disk, "error": None},
    }


def _training(now: Snapshot) -> dict[str, dict[str, Any]]:
    ranks = max(1, len(now.machine.gpus))
    losses = tuple(round(5.76 * 0.75**step, 4) for step in range(20))
    device = "cuda" if now.machine.gpus else "cpu"
    told = {"ranks": ranks, "device": device, "codes": (0,) * ranks, "losses": losses, "tokens_per_s": 8000 * ranks}
    return {"zero3_step": {**told, "seconds": 0.03, "error": None}}


def _gpus(now: Snapshot) -> dict[str, dict[str, Any]]:
    rates, rows = rates_of(now), list(enumerate(now.machine.gpus))
    return {
        "gpu_init": {
            "driver": {"code": 0, "name": None, "step": None, "seconds": 0.3},
            "gpus": tuple(
                {"index": index, "bus_id": gpu.bus_id, "code": 0, "name": None, "step": None, "seconds": 0.4}
                for index, gpu in rows
            ),
        },
        "gpu_memory": {
            "gpus": tuple(
                {"bus_id": gpu.bus_id, "bytes": 1 << 30, "copy_gb_s": hbm}
                for gpu, hbm in ((gpu, _spread(rates.hbm, index)) for index, gpu in rows)
            )
        },
        "gpu_matmul": {
            "gpus": tuple({**_product(gpu, index, rates), "bus_id": gpu.bus_id} for index, gpu in rows),
            "together": tuple(
                {
                    "bus_id": gpu.bus_id,
                    "kind": "bf16",
                    "tflops": _spread(rates.bf16 * 0.98, index),
                    **_clocks(rates, index),
                }
                for index, gpu in rows
            ),
        },
        "gpu_copy": {"gpus": tuple(_copy(now, gpu, index) for index, gpu in rows)},
    }


def _clocks(rates: Rates, index: int) -> dict[str, Any]:
    return {"sm_clock_mhz": rates.clock - 15 * (index % 2), "reasons": 0, "temperature_c": 58 + index % 4}


def _product(gpu: Gpu, index: int, rates: Rates) -> dict[str, Any]:
    told = {
        "bf16_tflops": _spread(rates.bf16, index),
        "fp16_tflops": _spread(rates.fp16, index),
        **_clocks(rates, index),
    }
    return {"model": gpu.model, **told, "stable": True, "digest": "58a1c0ffee58a1c0"}


def _copy(now: Snapshot, gpu: Gpu, index: int) -> dict[str, Any]:
    kind = kind_of(now.machine, gpu.bus_id)
    generation = kind.pcie_gen if kind else 4
    link = pcie(generation)
    assert link is not None
    rate = _spread(link.lane_gb_s * 16 * 0.86, index)
    shown = {"pcie_gen_load": generation, "pcie_width_load": 16}
    return {"bus_id": gpu.bus_id, "h2d_gb_s": rate, "d2h_gb_s": rate, **shown}


def _several(now: Snapshot) -> dict[str, dict[str, Any]]:
    rates, gpus = rates_of(now), now.machine.gpus
    pairs = [
        {
            "a": a.bus_id,
            "b": b.bus_id,
            "claimed": bool(a.p2p),
            "right": True,
            "gb_s": _spread(rates.pair, index),
            "error": None,
        }
        for index, (a, b) in enumerate((a, b) for a in gpus for b in gpus if a is not b)
    ]
    codes = (0,) * len(gpus)
    ring = {
        "gpus": len(gpus),
        "bytes": 4 << 30,
        "right": True,
        "codes": codes,
        "nccl": "2.21.5",
        "log": (),
        "error": None,
    }
    fast = bool(gpus[0].nvlinks)
    node = {"busbw_gb_s": rates.busbw, "algbw_gb_s": round(rates.busbw / 1.75, 1), "seconds": 0.016, "hcas": None}
    rdma = bool(now.machine.hcas)
    network = {
        "nets": ("IB",) if rdma else ("Socket",),
        "gdr": rdma,
        "busbw_gb_s": 40.0 if rdma else 2.0,
    }
    return {
        "gpu_p2p": {"pairs": tuple(pairs)},
        "nccl_node": {
            **ring,
            **node,
            "transports": ("P2P",) if fast else ("SHM",),
            "nets": (),
            "gdr": None,
            "nvls": fast,
        },
        "nccl_network": {**ring, **network, "transports": ("NET",), "nvls": False},
    }


def _rdma(now: Snapshot) -> dict[str, dict[str, Any]]:
    ports = [port for hca in now.machine.hcas for port in hca.ports if port.state == "ACTIVE" and hca.driver != "efa"]
    rows = tuple(
        {
            "hca": port.hca,
            "port": port.number,
            "rate_gbps": port.rate_gbps,
            "gbps": _spread((port.rate_gbps or 0) * 0.96, index),
            "error": None,
        }
        for index, port in enumerate(ports)
    )
    told = {"rdma_loopback": {"ports": rows}}
    return {**told, "gdr_loopback": {"ports": rows}} if now.machine.gpus else told

"""Fixtures of the family performance."""

from typing import Any

from rig.expected import Expected
from rig.snapshot import Snapshot
from tests.checks.snapshots import a100, h100, roce, rtx4090
from tests.checks.twin import Twin, changed


def probed(now: Snapshot, name: str, **values: Any) -> Snapshot:
    """The snapshot with other values in what a probe told; keys as `changed` takes them."""
    paths = {f"probes__{name}__data__{key}": value for key, value in values.items()}
    return changed(now, **paths)  # type: ignore[no-any-return]


def of_kind(now: Snapshot, device: str, model: str, nvlinks: int | None, count: int | None = None) -> Snapshot:
    """The same machine with GPUs of another PCI device id, or fewer of them."""
    gpus = now.machine.gpus[:count]
    ids = {gpu.bus_id for gpu in gpus}
    pci = tuple(one._replace(device=device) if one.bus_id in ids else one for one in now.machine.pci)
    return changed(  # type: ignore[no-any-return]
        now, machine__pci=pci, machine__gpus=tuple(gpu._replace(model=model, nvlinks=nvlinks) for gpu in gpus)
    )


def every(now: Snapshot, name: str, rows: str, **values: Any) -> Snapshot:
    """The same values in each row."""
    told = now.probes[name].data[rows]
    return probed(now, name, **{rows: tuple({**row, **values} for row in told)})


def alone(now: Snapshot) -> Snapshot:
    """A job of this node, on which nobody counts on RDMA."""
    ranks = tuple(one._replace(value=one.value[:1]) if one.name == "slots" else one for one in now.plan.ranks)
    return changed(now, plan__ranks=ranks, expected=Expected())  # type: ignore[no-any-return]


def sold(now: Snapshot) -> Snapshot:
    """The machine was sold with its HCAs."""
    return changed(now, expected__hcas=len(now.machine.hcas))  # type: ignore[no-any-return]


# The link of a GPU that is asleep, as a snapshot of an idle machine has it; under load it is awake.
IDLE = changed(h100(), machine__pci=tuple(one._replace(link_gts=2.5) for one in h100().machine.pci))
SLOW_MEMORY = probed(h100(), "gpu_memory", gpus__3__copy_gb_s=2180.0)
SLOW_MEMORY_WITHOUT_ECC_ERRORS = changed(
    SLOW_MEMORY,
    host__gpus=tuple(gpu._replace(ecc_uncorrected_volatile=0) for gpu in h100().host.gpus),  # type: ignore[union-attr]
)
PAIR = of_kind(h100(), "2330", "NVIDIA H100 80GB HBM3", 18, count=2)
NEW_KIND = of_kind(rtx4090(), "2f00", "NVIDIA Something New", 0)

TWINS = (
    Twin(
        "gpu_memory_is_equally_fast",
        SLOW_MEMORY_WITHOUT_ECC_ERRORS,
        h100(),
        says="memory copies 2180 GB/s",
        fix="look at this GPU",
        domain="host",
        outcome="warn",
        reported=("NVIDIA/NVSentinel#1748",),
    ),
    Twin(  # no table knows this kind; its peers do
        "gpu_memory_is_equally_fast",
        probed(NEW_KIND, "gpu_memory", gpus__0__copy_gb_s=700.0),
        NEW_KIND,
        says="0000:01:00.0",
        fix="look at this GPU",
        domain="host",
        outcome="warn",
        reported=("NVIDIA/DCGM#55", "NVIDIA/DCGM#139", "NVIDIA/DCGM#195", "NVIDIA/dcgm-exporter#404"),
    ),
    Twin(
        "gpu_memory_reaches_its_floor",
        every(a100(), "gpu_memory", "gpus", copy_gb_s=900.0),
        a100(),
        says="A100 SXM4 40 GB: 1000 at least",
        fix="return the machine",
        domain="host",
    ),
    Twin(  # "H200" is in "GH200" (test_floors: another device id, so its floor is not applied)
        "gpu_memory_reaches_its_floor",
        every(of_kind(h100(), "2335", "NVIDIA H200", 18), "gpu_memory", "gpus", copy_gb_s=2000.0),
        every(of_kind(h100(), "2335", "NVIDIA GH200 480GB", 18), "gpu_memory", "gpus", copy_gb_s=2400.0),
        says="H200 SXM: 2332 at least",
        fix="return the machine",
        domain="host",
        reported=("leptonai/gpud#1206",),
    ),
    Twin(
        "copies_to_the_gpus_are_equally_fast",
        probed(h100(), "gpu_copy", gpus__6__d2h_gb_s=44.0),
        h100(),
        says="copies to the host 44 GB/s",
        fix="look at this GPU",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "copies_to_the_gpus_fill_the_link",
        probed(h100(), "gpu_copy", gpus__2__h2d_gb_s=12.3),
        IDLE,
        says="12.3 GB/s over Gen5 x16, which has 63",
        fix="look at this GPU",
        domain="host",
        reported=("local-inference-lab/rtx6kpro#88", "NVIDIA/open-gpu-kernel-modules#1010", "Syllo/nvtop#6"),
    ),
    Twin(  # eight lanes by design: scaled, not failed
        "copies_to_the_gpus_fill_the_link",
        probed(rtx4090(), "gpu_copy", gpus__0__h2d_gb_s=18.0),
        probed(rtx4090(), "gpu_copy", gpus__0__h2d_gb_s=12.9, gpus__0__d2h_gb_s=12.9, gpus__0__pcie_width_load=8),
        says="18 GB/s over Gen4 x16",
        fix="return the machine",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "gpus_multiply_equally_fast",
        probed(h100(), "gpu_matmul", gpus__5__bf16_tflops=520.0),
        h100(),
        says="bf16 products 520 TFLOP/s",
        fix="look at this GPU",
        domain="host",
        outcome="warn",
        reported=("deepspeedai/DeepSpeed#1617", "NVIDIA/Megatron-LM#4662"),
    ),
    Twin(
        "gpus_multiply_as_fast_as_their_kind",
        every(h100(), "gpu_matmul", "gpus", bf16_tflops=400.0),
        h100(),
        says="bf16 products 400 TFLOP/s; H100 SXM5 80 GB: 556 at least",
        fix="return the machine",
        domain="host",
    ),
    Twin(
        "gpus_multiply_as_fast_as_their_kind",
        every(a100(), "gpu_matmul", "gpus", fp16_tflops=100.0),
        a100(),
        says="fp16 products 100 TFLOP/s",
        fix="return the machine",
        domain="host",
    ),
    Twin(
        "gpus_are_as_fast_together_as_alone",
        every(h100(), "gpu_matmul", "together", tflops=430.0),
        every(h100(), "gpu_matmul", "gpus", fp16_tflops=790.0),  # bf16 is compared with bf16
        says="430 TFLOP/s (bf16) beside the others",
        fix="power and cooling",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "gpus_compute_the_same_numbers",
        probed(roce(), "gpu_matmul", gpus__4__digest="badbadbadbadbad0"),
        roce(),
        says="other bits than on the other GPUs",
        fix="return the machine",
        domain="host",
    ),
    Twin(  # of two nobody can say which is wrong
        "gpus_compute_the_same_numbers",
        probed(PAIR, "gpu_matmul", gpus__1__digest="badbadbadbadbad0"),
        PAIR,
        says="0000:19:00.0, 0000:3b:00.0: the same product has other bits on each",
        fix="return the machine",
        domain="host",
    ),
    Twin(  # two models may choose two kernels
        "gpus_compute_the_same_numbers",
        probed(rtx4090(), "gpu_matmul", gpus__1__stable=False),
        probed(rtx4090(), "gpu_matmul", gpus__1__digest="1111222233334444", gpus__1__model="NVIDIA GeForce RTX 3090"),
        says="gave two results",
        fix="return the machine",
        domain="host",
    ),
    Twin(
        "rdma_ports_move_data_at_their_rate",
        probed(h100(), "rdma_loopback", ports__1__gbps=198.0),
        h100(),
        says="198 Gb/s with itself, the port has 400",
        fix="PCIe slot",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "rdma_ports_move_data_at_their_rate",
        sold(probed(roce(), "rdma_loopback", ports__1__gbps=None, ports__1__error="Couldn't allocate MR")),
        sold(probed(roce(), "rdma_loopback", ports__0__gbps=None, ports__0__error="no GID")),  # the front end's port
        says="moves no data: Couldn't allocate MR",
        fix="PCIe slot",
        domain="host",
    ),
    Twin(  # one node alone does not need it
        "rdma_ports_move_data_at_their_rate",
        alone(probed(roce(), "rdma_loopback", ports__1__gbps=None, ports__1__error="Couldn't allocate MR")),
        alone(roce()),
        says="moves no data: Couldn't allocate MR",
        fix="PCIe slot",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "rails_are_equally_fast",
        probed(h100(), "rdma_loopback", ports__1__gbps=340.0),
        h100(),
        says="340 Gb/s with itself, the others",
        fix="slot, cable, firmware",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "copies_to_the_gpus_fill_the_link",
        probed(h100(), "gpu_copy", gpus__2__pcie_gen_load=None),
        h100(),
        says="its PCIe link under load is not known",
        fix="look at this GPU",
        domain="host",
        outcome="unknown",
    ),
)

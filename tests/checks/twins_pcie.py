"""Fixtures of the family pcie."""

from typing import Any

from rig.host import KernelEvent
from rig.snapshot import Probe, Snapshot
from tests.checks.snapshots import a100, h100, rtx4090
from tests.checks.twin import Twin, changed

GPU, HCA = "0000:3b:00.0", "0000:3c:00.0"
LIMITED = "63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:15:01.0"
IDLE = "16.000 Gb/s available PCIe bandwidth, limited by 2.5 GT/s PCIe x8 link at 0000:15:01.0"


def link(now: Snapshot, bus: str, **values: Any) -> Snapshot:
    """The snapshot with another link."""
    assert now.host is not None
    links = tuple(one._replace(**values) if one.bus_id == bus else one for one in now.host.links)
    assert links != now.host.links
    return now._replace(host=now.host._replace(links=links))


def all_links(now: Snapshot, **values: Any) -> Snapshot:
    assert now.host is not None
    return now._replace(host=now.host._replace(links=tuple(one._replace(**values) for one in now.host.links)))


def log(now: Snapshot, *events: KernelEvent) -> Snapshot:
    return changed(now, host__kernel_log=events)  # type: ignore[no-any-return]


def loaded(now: Snapshot, **odd: Any) -> Snapshot:
    """What the copy saw: full links on all GPUs but the first, for which `odd` is said."""
    assert now.host is not None
    full = [
        {"bus_id": gpu.bus_id, "pcie_gen_load": gpu.pcie_gen_max, "pcie_width_load": gpu.pcie_width_max}
        for gpu in now.host.gpus
    ]
    full[0].update(odd)
    return now._replace(probes={**now.probes, "gpu_copy": Probe("gpu_copy", "ok", {"gpus": full})})


TWINS = (
    Twin(
        "gpu_links_have_all_their_lanes",
        link(h100(), GPU, width=8),
        all_links(rtx4090(), width=8, upstream_max_width=8),  # slots of eight lanes are no fault of the link
        says="8 of 16 PCIe lanes",
        fix="reseat",
        domain="host",
    ),
    Twin(
        "gpu_slots_are_no_risers",
        all_links(rtx4090(), upstream_max_width=1, width=1),
        all_links(rtx4090(), upstream_max_width=8, width=8),
        says="slot of 1 PCIe lanes",
        fix="another machine",
        domain="platform",
        outcome="warn",
        reported=("NVIDIA/DCGM#253",),
    ),
    Twin(
        "gpus_have_links_of_one_width",
        link(rtx4090(), "0000:21:00.0", width=8, upstream_max_width=8),
        rtx4090(),
        says="GPU 1 8",
        fix="another machine",
        domain="platform",
        outcome="warn",
    ),
    Twin(
        "hca_links_have_all_their_lanes",
        link(h100(), HCA, width=4),
        h100(),
        says="mlx5_1 runs on 4 of 16",
        fix="reseat",
        domain="host",
    ),
    Twin(
        "hca_links_run_at_full_speed",
        link(a100(), "0000:12:00.0", gts=8.0),
        a100(),
        says="mlx5_1 runs at 8 of 16 GT/s",
        fix="reseat",
        domain="host",
    ),
    Twin(
        "hca_slots_carry_the_ports_rate",
        link(h100(), HCA, upstream_max_gts=16.0, gts=16.0),
        link(a100(), "0000:12:00.0", upstream_max_gts=32.0),
        says="400 Gb/s, its slot 252 Gb/s",
        fix="slot",
        domain="platform",
        outcome="warn",
    ),
    Twin(
        "gpu_links_reach_full_speed_under_load",
        loaded(h100(), pcie_gen_load=2),
        loaded(rtx4090()),
        says="generation 2 of 5 under load",
        fix="reseat",
        domain="host",
        reported=(
            "NVIDIA/open-gpu-kernel-modules#1010",
            "Syllo/nvtop#6",
            "local-inference-lab/rtx6kpro#88",
            "NVIDIA/NVSentinel#890",
        ),
    ),
    Twin(
        "gpu_links_reach_full_speed_under_load",
        loaded(h100(), pcie_gen_load=None),
        loaded(h100()),
        says="GPU 0: its PCIe link under load is not known",
        fix="reseat",
        domain="host",
        outcome="unknown",
    ),
    Twin(
        "gpu_links_keep_their_lanes_under_load",
        loaded(h100(), pcie_width_load=8),
        loaded(h100()),
        says="8 of 16 PCIe lanes under load",
        fix="reseat",
        domain="host",
        reported=("NVIDIA/NVSentinel#890",),
    ),
    Twin(
        "kernel_reports_no_limited_link",
        log(h100(), KernelEvent("pcie-limited", LIMITED, bus_id=HCA)),
        log(  # a GPU that idled, and a device that is neither GPU nor HCA
            h100(),
            KernelEvent("pcie-limited", IDLE, bus_id=GPU),
            KernelEvent("pcie-limited", LIMITED, bus_id="0000:f0:01.0"),
        ),
        says="limited by 8.0 GT/s",
        fix="slot",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "kernel_reports_no_bus_error",
        log(h100(), *[KernelEvent("aer", "AER: Corrected error received", bus_id=GPU)] * 3),
        log(h100(), KernelEvent("aer", "AER: Corrected error received", bus_id="0000:f0:01.0")),
        says="3 PCIe errors",
        fix="reseat",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "links_count_few_errors",
        link(h100(), GPU, aer_nonfatal=4711),
        link(h100(), GPU, aer_nonfatal=2, aer_correctable=17),
        says="4711 nonfatal PCIe errors",
        fix="reseat",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "gpu_links_replay_little",
        changed(h100(), host__gpus__2__pcie_replays=250_000),
        changed(h100(), host__gpus__2__pcie_replays=12),
        says="250000 PCIe packets",
        fix="reseat",
        domain="host",
        outcome="warn",
    ),
)

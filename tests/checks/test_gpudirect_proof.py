"""GPUDirect that was sold is proven, fails, or is not known; unsold it is skipped for the right reason."""

import pytest

from checks import Result, evaluate
from checks import gpudirect as family
from rig.snapshot import Probe, Snapshot
from tests.checks.snapshots import h100, healthy
from tests.checks.twin import changed
from tests.checks.twins_gpudirect import kernel, loops, network, without_cuda

# What a container sees of a host with open kernel modules: /boot is not there.
HIDDEN = kernel(h100(), nvidia_peermem=False, memory_peers=None, p2pdma=None)
EFA = healthy("aws-p4d-efa")


def sold(now: Snapshot) -> Snapshot:
    return changed(now, expected__gdr=True)  # type: ignore[no-any-return]


def absent(now: Snapshot, why: str) -> Snapshot:
    return now._replace(probes={**now.probes, "gdr_loopback": Probe("gdr_loopback", "absent", {}, why)})


def judged(name: str, now: Snapshot) -> Result:
    return evaluate(getattr(family, name), now)


@pytest.mark.parametrize("now", [HIDDEN, EFA._replace(probes={})], ids=["no-boot-folder", "efa"])
def test_what_no_file_shows_is_not_taken_for_open(now: Snapshot) -> None:
    assert judged("gpudirect_is_possible_where_sold", sold(now)).outcome == "unknown"
    assert judged("a_way_to_gpu_memory_is_open", now).outcome == "skip"


@pytest.mark.parametrize("now", [HIDDEN, EFA._replace(probes={})], ids=["no-boot-folder", "efa"])
def test_what_was_measured_counts_before_what_files_say(now: Snapshot) -> None:
    by_nccl = network(now, nets=("IB",), gdr=True)
    assert judged("gpudirect_is_possible_where_sold", sold(by_nccl)).outcome == "pass"
    assert judged("a_way_to_gpu_memory_is_open", by_nccl).outcome == "pass"


def test_a_loop_proves_as_much() -> None:
    assert judged("gpudirect_is_possible_where_sold", sold(loops(HIDDEN, "gdr_loopback"))).outcome == "pass"
    failed = loops(HIDDEN, "gdr_loopback", gbps=None, error="Bad address")
    assert judged("gpudirect_is_possible_where_sold", sold(failed)).outcome == "unknown"


def test_efa_is_asked_for_no_loop() -> None:
    for name in ("gpudirect_moves_data", "gpudirect_is_as_fast_as_host_memory"):
        result = judged(name, EFA)
        assert (result.outcome, result.missing) == ("skip", "rdma-write")


@pytest.mark.parametrize("why", ["/usr/bin/ib_write_bw is not there", "perftest was built without CUDA"])
def test_a_loop_that_cannot_be_run_is_skipped_where_nothing_was_promised(why: str) -> None:
    assert judged("gpudirect_moves_data", absent(h100(), why)).outcome == "skip"
    unproven = network(absent(h100(), why), nets=("IB",), gdr=False)
    assert judged("gpudirect_moves_data", unproven).outcome == "skip"
    result = judged("gpudirect_moves_data", sold(unproven))
    assert result.outcome == "unknown" and why in result.why


def test_another_reason_is_told_as_it_is() -> None:
    result = judged("gpudirect_moves_data", absent(h100(), "no GPU here"))
    assert result.outcome == "unknown" and "no GPU here" in result.why


def test_the_shipped_image_proves_it_by_nccl() -> None:
    now = sold(network(without_cuda(h100()), nets=("IB",), gdr=True))
    assert judged("nccl_uses_gpudirect", now).outcome == "pass"
    assert judged("gpudirect_moves_data", now).outcome == "skip"


@pytest.mark.parametrize("state", ["failed", "unresponsive", "unasked"])
def test_a_loop_that_broke_off_proves_nothing(state: str) -> None:
    whole = loops(h100(), "gdr_loopback").probes["gdr_loopback"]
    now = h100()._replace(probes={**h100().probes, "gdr_loopback": whole._replace(state=state)})
    assert judged("gpudirect_moves_data", now).outcome == "unknown"
    assert judged("gpudirect_is_as_fast_as_host_memory", now).outcome == "unknown"


def test_the_rates_are_compared_with_only_that_check_named() -> None:
    assert family.gpudirect_is_as_fast_as_host_memory.probes == ("gdr_loopback", "rdma_loopback")

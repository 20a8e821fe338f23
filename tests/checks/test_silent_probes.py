"""A probe that did not come to its end, or told of less than there is, is never a pass of what it was to measure."""

import sys
import time
from collections.abc import Mapping
from typing import Any

import pytest

from checks import CannotTell, Check, evaluate
from checks.catalogue import FAMILIES, family_checks
from checks.measured import gpu_rows, may_see
from checks.probing import PROBES
from entrypoint import check_run
from rig.children import Ended, Job, run_jobs
from rig.snapshot import Probe, Snapshot
from tests.checks.healthy_image import PINS
from tests.checks.snapshots import a100, h100, healthy, no_gpu, rtx4090
from tests.checks.twin import changed

EVERY = [one for family in FAMILIES for one in family_checks(family)]
JUDGES = [one for one in EVERY if one.probe]
NEEDS = {one.name: one.needs for one in PROBES}
STATES = ("failed", "unresponsive", "absent", "unasked")
ROWS = ("gpus", "together", "pairs", "ports")  # lists of which a part is not enough

ids = pytest.mark.parametrize("one", JUDGES, ids=[one.id for one in JUDGES])


def outcome(now: Snapshot, one: Check, probe: Probe | None) -> str:
    probes = {name: value for name, value in now.probes.items() if name != one.probe}
    if probe is not None:
        probes[probe.name] = probe
    return evaluate(one, now._replace(probes=probes)).outcome


def short(data: Mapping[str, Any], count: int, keys: tuple[str, ...]) -> dict[str, Any]:
    """What it had told when it died: lists of a few rows."""
    return {key: value[:count] if key in keys and isinstance(value, tuple) else value for key, value in data.items()}


@ids
@pytest.mark.parametrize("state", STATES)
def test_no_check_passes_by_a_probe_that_did_not_answer(one: Check, state: str) -> None:
    for now in (h100(), a100(), rtx4090()):
        assert outcome(now, one, Probe(str(one.probe), state, {"asking": "GPU 3"}, "why")) in (
            "skip",
            "unknown",
            "fail",
        )


@ids
@pytest.mark.parametrize("state", STATES)
def test_no_check_passes_by_what_a_probe_had_told_before_it_died(one: Check, state: str) -> None:
    """Three GPUs were well; the fourth ended it."""
    for now in (h100(), a100(), rtx4090()):
        data = now.probes[str(one.probe)].data if str(one.probe) in now.probes else {}
        for told in (short(data, 3, tuple(data)), dict(data)):
            probe = Probe(str(one.probe), state, {**told, "asking": "GPU 3"}, "ended by signal 11", 1.0)
            assert outcome(now, one, probe) in ("skip", "unknown", "fail")


@ids
@pytest.mark.parametrize("count", [0, 1, 7])
def test_no_check_passes_by_a_probe_that_told_of_some(one: Check, count: int) -> None:
    """CUDA sees fewer GPUs than the driver has, or none."""
    for now in (h100(), a100(), rtx4090()):
        data = now.probes[str(one.probe)].data if str(one.probe) in now.probes else {}
        if any(len(data.get(key) or ()) > count for key in ROWS if isinstance(data.get(key), tuple)):
            probe = Probe(str(one.probe), "ok", short(data, count, ROWS), "", 1.0)
            assert outcome(now, one, probe) in ("skip", "unknown", "fail")


@ids
def test_no_check_passes_by_a_probe_that_was_not_run_or_said_nothing(one: Check) -> None:
    for now in (h100(), rtx4090()):
        assert outcome(now, one, None) in ("skip", "unknown")
        assert outcome(now, one, Probe(str(one.probe), "ok", {})) in ("skip", "unknown", "fail")


@ids
def test_what_a_probe_needs_its_judges_need(one: Check) -> None:
    """A probe that does not apply was never asked: its judges are skipped, for unknown would be no verdict at all."""
    bare = changed(h100(), image__packages={"numpy": "1.26.4"})
    for now in (no_gpu(), bare, changed(h100(), machine__gpus=()), changed(rtx4090(), machine__hcas=())):
        missing = next((need for need in NEEDS[str(one.probe)] if not need.met(now)), None)
        if missing is not None:
            probe = Probe(str(one.probe), "unasked", {}, missing.without)
            assert outcome(now, one, probe) == "skip", missing.name


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        (None, 8),
        ("", 0),
        ("-1", 0),
        ("7, 0", 2),
        ("0,8,1", 1),  # CUDA stops at what is not there
        (str(h100().machine.gpus[3].uuid), 1),
        ("GPU-ffffffff", 0),
        ("MIG-0", 1),
    ],
)
def test_cuda_may_see_what_the_user_left_of_the_gpus(visible: str | None, count: int) -> None:
    now = h100()._replace(environ={} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    assert may_see(now) == count


def test_the_gpus_that_the_user_left_are_enough() -> None:
    """Of two in a row, any two: which ones they are CUDA decides."""
    data = h100().probes["gpu_memory"].data["gpus"]
    two = h100()._replace(environ={"CUDA_VISIBLE_DEVICES": "2,3"})
    for rows, known in ((data[2:4], True), (data[5:7], True), (data[2:3], False), (data, True)):
        now = two._replace(probes={"gpu_memory": Probe("gpu_memory", "ok", {"gpus": rows})})
        if known:
            assert gpu_rows(now, "gpu_memory") == rows
        else:
            with pytest.raises(CannotTell, match="gpu_memory told nothing of"):
                gpu_rows(now, "gpu_memory")


def test_a_guest_without_links_is_not_asked_for_them() -> None:
    """Functions on a guest's root bus have none."""
    now = changed(healthy("vm-flat-pci"), host__links=())
    asked = [one for one in EVERY if "pcie-links" in [need.name for need in one.needs] and one.probe == "gpu_copy"]
    assert len(asked) == 3
    assert {evaluate(one, now).outcome for one in asked} == {"skip"}


@pytest.mark.parametrize("name", ["nccl_node", "nccl_network", "zero3_step"])
def test_no_check_passes_by_fewer_ranks_than_there_are_gpus(name: str) -> None:
    """CUDA sees no GPU, or seven, and each of its ranks ends well."""
    for count in (1, 7):
        data = {**h100().probes[name].data, "codes": (0,) * count, "gpus": count, "ranks": count}
        now = h100()._replace(probes={**h100().probes, name: Probe(name, "ok", data, "", 1.0)})
        judges = [one for family in ("training", "collectives") for one in family_checks(family) if one.probe == name]
        assert judges
        assert {evaluate(one, now).outcome for one in judges} <= {"unknown", "skip"}


def test_a_virtual_gpu_that_tells_no_reasons_and_no_heat_is_not_asked_for_them() -> None:
    now = h100()
    assert now.host is not None
    gpus = tuple(
        one._replace(clock_reasons=None, temperature_c=None, power_limit_mw=None, power_default_mw=None)
        for one in now.host.gpus
    )
    said = {one.id: evaluate(one, changed(now, host__gpus=gpus)) for one in family_checks("clocks")}
    assert {one.missing for one in said.values()} >= {"clock-reasons", "temperatures", "power-limits"}
    assert "unknown" not in {one.outcome for one in said.values()}


def test_nothing_is_said_of_probes_of_which_none_ran() -> None:
    one = next(one for one in EVERY if one.id == "every_probe_answers")
    assert evaluate(one, h100()._replace(probes={})).outcome == "unknown"
    never = {name: Probe(name, "unasked", {}, "budget: no time was left to start it") for name in h100().probes}
    assert evaluate(one, h100()._replace(probes=never)).outcome == "unknown"


def test_one_speaks_of_a_probe_that_hung_and_the_others_point_at_it() -> None:
    for name in sorted({str(one.probe) for one in JUDGES}):
        probe = Probe(name, "unresponsive", {"asking": "GPU 3"}, "did not end within 60 s", 60.0)
        now = changed(h100(), pins=PINS, probes={**h100().probes, name: probe})
        said = {one.id: evaluate(one, now) for one in EVERY if one.probe == name or one.id == "every_probe_answers"}
        assert [key for key, result in said.items() if result.outcome == "fail"] == ["every_probe_answers"]
        for result in said.values():
            assert result.outcome in ("fail", "skip") or "every_probe_answers" in result.why


def test_a_hang_that_the_time_of_the_level_cuts_is_told() -> None:
    """From the program that hangs to the finding: nothing on the way takes it for one that was never asked."""
    told = '{"driver": {"code": 0, "seconds": 0.1}, "asking": "GPU 3"}'
    words = f"print('{told}', flush=True); import time; time.sleep(60)"
    ended: list[Ended] = []
    run_jobs([Job("gpu_init", (sys.executable, "-c", words), 45.0, {}, True)], time.monotonic() + 1, ended.append)
    probe = check_run._probe(ended[0])
    assert (probe.state, probe.cut, probe.asking) == ("unasked", True, "GPU 3")
    now = h100()._replace(probes={**h100().probes, "gpu_init": probe})
    result = evaluate(next(one for one in EVERY if one.id == "every_probe_answers"), now)
    assert result.outcome == "unknown"
    assert "gpu_init was still at GPU 3 when the level's time was over" in result.findings[0].text


def test_one_speaks_of_a_cudnn_that_is_not_the_pinned() -> None:
    """It is judged as it is loaded only where the installed one is right."""
    now = changed(h100(), pins=PINS, image__packages={**h100().image.packages, "nvidia-cudnn-cu12": "8.7.0.84"})  # type: ignore[union-attr]
    said = {one.id: evaluate(one, now) for one in EVERY if one.id.endswith(("their_pins", "cudnn_is_the_pinned"))}
    assert said["packages_equal_their_pins"].outcome == "fail"
    assert said["loaded_cudnn_is_the_pinned"].outcome == "unknown"
    assert "packages_equal_their_pins" in said["loaded_cudnn_is_the_pinned"].why

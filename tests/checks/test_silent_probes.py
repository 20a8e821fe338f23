"""A probe that did not answer is never a pass of what it should have measured."""

import pytest

from checks import Check, evaluate
from checks.catalogue import FAMILIES, family_checks
from rig.snapshot import Probe, Snapshot
from tests.checks.snapshots import a100, h100, rtx4090

JUDGES = [one for family in FAMILIES for one in family_checks(family) if one.probe]
STATES = ("failed", "unresponsive", "absent", "unasked")


def answered(now: Snapshot, one: Check, probe: Probe | None) -> str:
    probes = {name: value for name, value in now.probes.items() if name != one.probe}
    if probe is not None:
        probes[probe.name] = probe
    return evaluate(one, now._replace(probes=probes)).outcome


@pytest.mark.parametrize("one", JUDGES, ids=[one.id for one in JUDGES])
@pytest.mark.parametrize("state", STATES)
def test_no_check_passes_by_a_probe_that_did_not_answer(one: Check, state: str) -> None:
    probe = Probe(str(one.probe), state, {"asking": "GPU 3"}, "why")
    for now in (h100(), a100(), rtx4090()):
        assert answered(now, one, probe) in ("skip", "unknown", "fail")


@pytest.mark.parametrize("one", JUDGES, ids=[one.id for one in JUDGES])
def test_no_check_passes_by_a_probe_that_was_not_run_or_said_nothing(one: Check) -> None:
    for now in (h100(), rtx4090()):
        assert answered(now, one, None) in ("skip", "unknown")
        assert answered(now, one, Probe(str(one.probe), "ok", {})) in ("skip", "unknown", "fail")

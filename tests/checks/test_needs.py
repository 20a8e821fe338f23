"""What needs are called, and what --no-skip makes of them."""

from collections import Counter

import pytest

from checks import Need, evaluate, needs
from checks.catalogue import FAMILIES, family_checks
from rig.expected import Expected
from rig.snapshot import Snapshot
from tests.checks.snapshots import a100, h100, no_gpu, roce, rtx4090
from tests.checks.twin import changed

NEEDS = [value for value in vars(needs).values() if isinstance(value, Need)]
CHECKS = [one for family in FAMILIES for one in family_checks(family)]


def test_names_that_needs_share() -> None:
    """All of a name are met together, so that --no-skip NAME asks for one thing."""
    shared = {name for name, count in Counter(one.name for one in NEEDS).items() if count > 1}
    assert shared == {"gpu", "rdma"}


@pytest.mark.parametrize("now", [h100(), a100(), roce(), rtx4090()], ids=["h100", "a100", "roce", "4090"])
def test_what_is_there_is_not_missed(now: Snapshot) -> None:
    """`--no-skip gpu,rdma --expect gpus=8` on a machine that has them."""
    asked = frozenset({"gpu", "rdma", "driver", "nvml"} if now.machine.hcas else {"gpu", "driver", "nvml"})
    expecting = changed(now, expected__gpus=8)
    for which in (now, expecting):
        assert [one.id for one in CHECKS if evaluate(one, which, asked).outcome == "fail"] == []


def test_what_is_away_fails_where_it_must_not_be_skipped() -> None:
    results = [evaluate(one, no_gpu(), frozenset({"gpu"})) for one in CHECKS]
    assert len([one for one in results if one.outcome == "fail" and one.missing == "gpu"]) > 50


@pytest.mark.parametrize("word", ["gpus", "model", "nvlinks", "memory_gb"])
def test_no_word_about_gpus_passes_where_there_is_none(word: str) -> None:
    away = changed(no_gpu(), expected=Expected(**{word: "H100" if word == "model" else 8}))  # type: ignore[arg-type]
    assert "fail" in {evaluate(one, away).outcome for one in CHECKS if one.at == "boot" and one.family == "gpu"}


@pytest.mark.parametrize("word", ["hcas", "rate", "gdr"])
def test_no_word_about_rdma_passes_where_there_is_none(word: str) -> None:
    away = changed(no_gpu(), expected=Expected(**{word: 1}))  # type: ignore[arg-type]
    outcomes = {(evaluate(one, away).outcome, one.severity) for one in CHECKS if one.at == "boot"}
    assert outcomes & {("fail", "fail"), ("unknown", "fail")}


def test_a_word_promises_a_kind_of_device() -> None:
    told = {name: Expected(**{name: 1}) for name in Expected._fields}  # type: ignore[arg-type]
    assert {name for name, one in told.items() if one.promises_gpus} == {"gpus", "model", "nvlinks", "memory_gb", "gdr"}
    assert {name for name, one in told.items() if one.promises_hcas} == {"hcas", "rate", "gdr"}
    assert not Expected().promises_gpus and not Expected(gpus=0).promises_gpus

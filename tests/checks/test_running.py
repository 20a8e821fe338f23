"""Which checks and probes a run has, and what its results come to."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import LEVELS, CannotTell, Check, Need, evaluate, running
from checks.catalogue import FAMILIES, checks_of
from checks.probing import PROBES
from checks.running import BUDGET_S, BadRequest, evaluate_all, exit_code, find_check, known_needs, merged, select
from rig.snapshot import Probe, Snapshot
from tests.checks import reports
from tests.checks.reports import FAIL, MILD, NOW, PASS, SKIP, UNKNOWN, WARN, made, report

EVERY = checks_of(LEVELS[-1])


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_has_its_own_checks_and_those_below(level: str) -> None:
    selection = select(level, (), PROBES)
    assert list(selection.checks) == checks_of(level) and selection.level == level
    assert {one.at for one in selection.checks} <= set(LEVELS[: LEVELS.index(level) + 1])


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_has_the_probes_that_its_checks_judge_and_no_deeper_ones(level: str) -> None:
    selection = select(level, (), PROBES)
    assert {one.name for one in selection.probes} == {name for one in selection.checks for name in one.probes}
    assert {one.at for one in selection.probes} <= set(LEVELS[: LEVELS.index(level) + 1])


def test_every_probe_is_judged_by_a_check_and_every_check_names_one_that_exists() -> None:
    names = {one.name for one in PROBES}
    assert {one.probe for one in EVERY if one.probe} == names
    assert {name for one in EVERY for name in one.also} <= names


def test_without_a_level_it_is_quick() -> None:
    assert select(None, (), PROBES) == select("quick", (), PROBES)


def test_only_one_check_is_run_with_its_probe_and_the_time_of_its_level() -> None:
    for one in EVERY:
        selection = select(None, (one.id,), PROBES)
        assert selection.checks == (one,)
        assert {probe.name for probe in selection.probes} == set(one.probes)
        assert selection.level == max(one.at, "quick", key=LEVELS.index)
    assert select("boot", ("memlock_is_unlimited",), PROBES).level == "boot"


def test_only_one_check_is_run_with_all_the_probes_that_it_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
    one = made("limits_are_wide")._replace(probe="shm", also=("gpu_init", "nccl_node"))
    monkeypatch.setattr(running, "checks_of", lambda level: [one])
    selection = select(None, (one.id,), PROBES)
    assert {probe.name for probe in selection.probes} == {"shm", "gpu_init", "nccl_node"}
    assert selection.level == "full"  # that of nccl_node


def test_only_a_family_has_the_checks_of_the_level() -> None:
    for family in FAMILIES:
        selection = select("full", (family,), PROBES)
        assert list(selection.checks) == [one for one in checks_of("full") if one.family == family]


def test_only_keeps_the_order_of_the_catalogue() -> None:
    ids = [one.id for one in EVERY]
    assert [one.id for one in select(None, ids[::-1], PROBES).checks] == ids


@pytest.mark.parametrize(
    ("level", "only", "words"),
    [
        ("fast", (), "there is no level 'fast'; the levels are boot, quick, full, deep"),
        (None, ("memlock_unlimited",), "no check 'memlock_unlimited' (did you mean memlock_is_unlimited?)"),
        (None, ("limit",), "no check 'limit' (did you mean limits?)"),
        (None, ("zzzzzz",), "no check 'zzzzzz'; rig check --list"),
    ],
)
def test_what_does_not_exist_is_refused_with_the_nearest(level: str | None, only: tuple[str, ...], words: str) -> None:
    with pytest.raises(BadRequest) as error:
        select(level, only, PROBES)
    assert words in str(error.value)


def test_a_check_is_found_by_its_id() -> None:
    assert [find_check(one.id) for one in EVERY] == EVERY
    with pytest.raises(BadRequest, match=r"did you mean memlock_is_unlimited\?"):
        find_check("memlock_is_unlimted")


def test_needs_are_known_by_name() -> None:
    assert known_needs(("rdma",)) == {"rdma"} and known_needs(()) == frozenset()
    with pytest.raises(BadRequest, match=r"no check needs 'rmda' \(did you mean rdma\?\); they need .*rdma"):
        known_needs(("rdma", "rmda"))


def test_a_deeper_level_has_more_time_and_the_deepest_enough_for_every_probe() -> None:
    assert [level for level in LEVELS if BUDGET_S[level] is None] == ["boot"]  # it starts no probe
    assert [one for one in PROBES if one.at == "boot"] == []
    times = [BUDGET_S[level] or 0 for level in LEVELS]
    assert times == sorted(set(times))
    assert sum(one.timeout_s for one in select(LEVELS[-1], (), PROBES).probes) <= times[-1]


@pytest.mark.parametrize("one", EVERY, ids=[one.id for one in EVERY])
def test_one_check_has_at_least_the_time_of_the_level_that_it_and_its_probes_belong_to(one: Check) -> None:
    selection = select("boot", (one.id,), PROBES)
    levels = [one.at, *(probe.at for probe in selection.probes)]
    assert BUDGET_S[selection.level] == max((BUDGET_S[level] for level in levels), key=lambda told: told or 0)


@pytest.mark.parametrize(
    ("checks", "code", "strict"),
    [
        ((PASS,), 0, 0),
        ((PASS, SKIP), 0, 0),
        ((PASS, WARN), 0, 1),
        ((WARN,), 0, 1),
        ((PASS, MILD), 0, 1),
        ((PASS, FAIL), 1, 1),
        ((FAIL, UNKNOWN), 1, 1),
        ((PASS, UNKNOWN), 2, 1),
        ((MILD,), 2, 1),
        ((SKIP,), 2, 2),
        ((), 2, 2),
    ],
)
def test_the_exit_code(checks: tuple[Check, ...], code: int, strict: int) -> None:
    judged = report(*checks).judged
    assert (exit_code(judged, False), exit_code(judged, True)) == (code, strict)
    assert report(*checks).code == code and report(*checks, strict=True).code == strict


@given(st.lists(st.sampled_from(reports.ALL), max_size=6))
def test_strict_is_never_milder_and_one_more_failure_is_never_better(checks: list[Check]) -> None:
    judged = report(*checks).judged
    assert exit_code(judged, True) != 0 or exit_code(judged, False) == 0
    assert exit_code((*judged, *report(FAIL).judged), False) == 1
    assert sum(report(*checks).counts.values()) == len(checks)


@pytest.mark.parametrize(("state", "outcome"), [("ok", "pass"), ("failed", "pass"), ("unasked", "unknown")])
def test_a_check_whose_probe_was_not_run_is_unknown_with_its_reason(state: str, outcome: str) -> None:
    now = NOW._replace(probes={"shm": Probe("shm", state, error="budget: no time was left")})
    result = evaluate(made("shm_is_wide")._replace(probe="shm"), now)
    assert result.outcome == outcome and (outcome == "pass" or result.why == "budget: no time was left")


def test_a_need_that_is_not_met_comes_before_the_probe() -> None:
    now = NOW._replace(probes={"shm": Probe("shm", "unasked", error="budget")})
    one = SKIP._replace(probe="shm")
    assert evaluate(one, now).outcome == "skip"
    absent = evaluate(one._replace(domain="image"), now, frozenset({"unicorn"}))
    assert absent.outcome == "fail"
    assert [(told.domain, told.fix) for told in absent.findings] == [("image", one.fix)]  # who can do what it says


@pytest.mark.parametrize(
    ("error", "why"), [(CannotTell("the bus: not known"), "the bus: not known"), (KeyError("x"), "KeyError: 'x'")]
)
def test_a_need_that_breaks_is_unknown_and_no_skip(error: Exception, why: str) -> None:
    def met(now: Snapshot) -> bool:
        raise error

    result = evaluate(made("bus_is_wide", needs=(Need("bus", "no bus", met),)), NOW, frozenset({"bus"}))
    assert result.outcome == "unknown" and result.why.endswith(why)


def test_the_time_of_a_check_is_that_of_its_probe() -> None:
    now = NOW._replace(probes={"shm": Probe("shm", "ok", seconds=1.5)})
    first, second = evaluate_all([PASS._replace(probe="shm"), PASS], now)
    assert (first.seconds, second.seconds) == (1.5, None)


def test_objects_are_merged_and_lists_joined() -> None:
    output = '{"a": 1, "gpus": [{"bus_id": "x"}]}\nnoise\n{"gpus": [2], "a": null, "m": {"b": 1}}\n{"m": {"c": [3]}}\n'
    assert merged(output) == {"a": None, "gpus": ({"bus_id": "x"}, 2), "m": {"b": 1, "c": (3,)}}


@pytest.mark.parametrize("output", ["", "\n", "[1]\n", "3\n", '{"a": [1, 2', "\x00\n", "[" * 100000, '"a"\n'])
def test_what_is_no_object_is_left_out(output: str) -> None:
    assert merged(output) == {}


def test_a_line_that_broke_off_leaves_those_before_it() -> None:
    assert merged('{"asking": "0000:1b:00.0"}\n{"gpus": [{"bus_') == {"asking": "0000:1b:00.0"}


@given(st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.lists(st.integers(), max_size=3), max_size=3)))
def test_merging_any_objects_keeps_every_key(objects: list[dict[str, object]]) -> None:
    told = merged("\n".join(json.dumps(one) for one in objects))
    assert set(told) == {key for one in objects for key in one}

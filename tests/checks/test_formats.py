"""Every format says the same, and an independent reader of the format reads it."""

import json
import re
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tap.parser
from junitparser import Error, Failure, JUnitXml, Skipped
from prometheus_client.parser import text_string_to_metric_families

from checks import LEVELS, evaluate
from checks.catalogue import checks_of
from checks.formats import FORMATS, flat, writer
from checks.running import Judged, Report
from rig.snapshot import Probe
from tests.checks import reports
from tests.checks.reports import NASTY, every_outcome, nothing, report
from tests.checks.test_twins import TWINS

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "check-results.schema.json").read_text())


def catalogue() -> Report:
    """What every broken snapshot of the fixtures comes to."""
    checks = {one.id: one for one in checks_of(LEVELS[-1])}
    judged = [Judged(checks[twin.id], evaluate(checks[twin.id], twin.broken)) for twin in TWINS]
    return report()._replace(judged=tuple({one.check.id: one for one in judged}.values()))


REPORTS = {
    "every outcome": every_outcome,
    "strict": lambda: every_outcome(strict=True),
    "nothing": nothing,
    "the fixtures of the catalogue": catalogue,
}


@pytest.fixture(params=REPORTS.values(), ids=REPORTS)
def told(request: pytest.FixtureRequest) -> Report:
    made: Report = request.param()
    return made


def outcomes(told: Report) -> dict[str, str]:
    return {one.check.id: one.result.outcome for one in told.judged}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_ends_with_one_newline_and_holds_no_control_characters(name: str, told: Report) -> None:
    text = writer(name)(told)
    assert text.endswith("\n") and not text.endswith("\n\n")
    assert not re.search(r"[^\n\t -\ud7ff\ue000-\ufffd]", text)
    text.encode("utf-8")


@pytest.mark.parametrize("name", FORMATS)
def test_no_word_of_a_snapshot_speaks_to_the_terminal_or_breaks_the_form(name: str) -> None:
    evil = f"{NASTY}\x07\x1b]0;x\x9b2J\n\u202e\ufdd0"
    probes = (Probe(evil, evil, {"asking": evil}, evil, 1.0), Probe(evil, "unasked", {"asking": evil}, evil, 1.0))
    text = writer(name)(every_outcome()._replace(hostname=evil, taken_at=evil, machine=evil, probes=probes))
    assert [c for c in text if not c.isprintable() and c != "\n"] == []
    if name == "junit":
        suite = next(xml.fromstring(text.encode()).iter("testsuite"))
        assert suite.get("hostname") == suite.get("timestamp") == flat(evil)


# JSON


def test_json_is_as_its_schema_says_and_holds_every_result(told: Report) -> None:
    data = json.loads(writer("json")(told))
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert {one["id"]: one["outcome"] for one in data["results"]} == outcomes(told)
    assert data["counts"] == told.counts and data["exit_code"] == told.code


def test_json_tells_a_probe_that_was_cut_from_one_that_was_not_started() -> None:
    probes = {one["name"]: one for one in json.loads(writer("json")(every_outcome()))["probes"]}
    assert [name for name, one in probes.items() if one["cut"]] == ["nccl_node"]
    assert probes["nccl_node"]["asking"] == "GPU 3" and probes["nccl_node"]["seconds"] == 4.1
    assert (probes["disk"]["state"], probes["disk"]["asking"], probes["disk"]["seconds"]) == ("unasked", None, None)


def test_the_schema_describes_every_key_that_is_written() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    data = json.loads(writer("json")(every_outcome()))
    result = SCHEMA["$defs"]["result"]
    probe = SCHEMA["properties"]["probes"]["items"]
    finding = next(one["findings"][0] for one in data["results"] if one["findings"])
    for written, described in (
        (data, SCHEMA),
        (data["results"][0], result),
        (data["probes"][0], probe),
        (finding, SCHEMA["$defs"]["finding"]),
    ):
        assert sorted(written) == sorted(described["properties"]) == sorted(described["required"])


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"exit_code": 3},
        {"results": [{}]},
        {"counts": {"pass": 1}},
        {"results": [{"outcome": "fail", "findings": []}]},
    ],
)
def test_the_schema_refuses_what_it_should(change: dict[str, Any]) -> None:
    data = {**json.loads(writer("json")(every_outcome())), **change}
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(data)


def test_json_keeps_wants_and_gots_as_they_are() -> None:
    data = json.loads(writer("json")(every_outcome()))
    (limits,) = [one for one in data["results"] if one["id"] == "limits_are_high"]
    first, second = limits["findings"]
    assert (first["want"], first["got"], first["fix"]) == ("unlimited", 65536, "docker run --ulimit memlock=-1")
    assert (second["want"], second["got"]) == ({"at least": 65536}, [1024, None])
    (odd,) = [one for one in data["results"] if one["id"] == "limits_are_odd"]
    assert sorted(odd["findings"][0]["got"][NASTY]) == sorted([NASTY, "b"])


# JUnit


def junit(told: Report) -> dict[str, Any]:
    return {case.name: case for suite in JUnitXml.fromstring(writer("junit")(told).encode()) for case in suite}


def kind(case: Any) -> type | None:
    assert len(case.result) <= 1
    return type(case.result[0]) if case.result else None


def test_junit_tells_skips_errors_and_failures_apart(told: Report) -> None:
    wanted = {
        "pass": None,
        "skip": Skipped,
        "unknown": Error,
        "fail": Failure,
        "warn": Failure if told.strict else None,
    }
    found = {name: kind(case) for name, case in junit(told).items()}
    assert found == {name: wanted[outcome] for name, outcome in outcomes(told).items()}


def test_junit_counts_what_it_holds(told: Report) -> None:
    xml = JUnitXml.fromstring(writer("junit")(told).encode())
    cases = [case for suite in xml for case in suite]
    kinds = [kind(case) for case in cases]
    for holder in (xml, *xml):
        inside = kinds if holder is xml else [kind(case) for case in holder]
        counts = (holder.tests, holder.failures, holder.errors, holder.skipped)
        assert counts == (len(inside), inside.count(Failure), inside.count(Error), inside.count(Skipped))


def test_junit_carries_reason_fix_and_time() -> None:
    cases = junit(every_outcome())
    failure = cases["limits_are_high"].result[0]
    assert failure.message == "memlock is 65536 bytes" and "fix: docker run --ulimit memlock=-1" in failure.text
    assert cases["rdma_is_calm"].system_out.startswith("mlx5_0:1: retransmits: 12")
    assert cases["rdma_is_up"].result[0].message == "no unicorn here"
    assert cases["driver_answers"].result[0].message == "the driver's version: not known"
    assert cases["gpu_is_fast_and_probed"].time == 1.25


# TAP


def tap_lines(told: Report) -> list[Any]:
    lines = list(tap.parser.Parser().parse_text(writer("tap")(told)))
    assert [str(one) for one in lines if one.category == "unknown"] == []
    return lines


def test_tap_has_a_line_a_check_and_skips_are_directives(told: Report) -> None:
    lines = tap_lines(told)
    (plan,) = [one for one in lines if one.category == "plan"]
    tests = [one for one in lines if one.category == "test"]
    assert plan.expected_tests == len(tests) == len(told.judged)
    assert [one.number for one in tests] == list(range(1, len(tests) + 1))
    good = {"pass": True, "skip": True, "unknown": False, "fail": False, "warn": not told.strict}
    for line, judged in zip(tests, told.judged, strict=True):
        assert line.description.removeprefix("- ") == judged.check.id
        assert line.ok is good[judged.result.outcome] and line.skip is (judged.result.outcome == "skip")
        assert not line.todo


def test_tap_explains_what_is_wrong_in_yaml() -> None:
    blocks = [one.yaml_block for one in tap_lines(every_outcome()) if one.category == "test" and one.yaml_block]
    assert [one["outcome"] for one in blocks] == ["warn", "fail", "unknown", "unknown", "fail", "unknown"]
    assert blocks[1]["said"] == ["memlock is 65536 bytes", "nofile: too few files"]
    assert blocks[1]["fix"] == ["docker run --ulimit memlock=-1", "docker run --ulimit nofile=65536"]
    assert blocks[4]["said"] == [f"{flat(NASTY)}"]


# Prometheus


def samples(told: Report) -> dict[str, list[Any]]:
    families = list(text_string_to_metric_families(writer("prom")(told)))
    assert all(one.type == "gauge" and one.documentation for one in families)
    return {one.name: one.samples for one in families}


def test_prometheus_has_a_state_set_for_each_check_and_all_counts(told: Report) -> None:
    found = samples(told)
    states = found["rig_check_outcome"]
    assert len(states) == 5 * len(told.judged)
    assert {one.labels["id"]: one.labels["outcome"] for one in states if one.value == 1} == outcomes(told)
    assert sum(one.value for one in states) == len(told.judged)
    assert {one.labels["outcome"]: one.value for one in found["rig_checks"]} == told.counts
    assert [one.value for one in found["rig_check_exit_code"]] == [told.code]


def test_prometheus_has_the_time_of_the_look() -> None:
    (sample,) = samples(every_outcome())["rig_check_timestamp_seconds"]
    assert sample.value == 1796090400  # date -u -d 2026-12-01T02:00:00Z +%s
    assert "rig_check_timestamp_seconds" not in samples(nothing())
    assert "rig_check_timestamp_seconds" not in samples(report(taken_at="yesterday"))


def test_prometheus_labels_are_escaped() -> None:
    odd = reports.PASS._replace(domain='a "quoted" \\ and\nbroken one')
    (sample,) = [one for one in samples(report(odd))["rig_check_outcome"] if one.value == 1]
    assert sample.labels["domain"] == odd.domain


# node-problem-detector


@pytest.mark.parametrize(
    ("checks", "strict", "line"),
    [
        ((reports.PASS,), False, "1 check passed"),
        ((reports.PASS, reports.WARN), False, "2 checks passed, 1 with warnings"),
        ((reports.PASS, reports.FAIL, reports.UNKNOWN), False, "1 failed: limits_are_high"),
        ((reports.PASS, reports.UNKNOWN), False, "1 unknown: driver_answers"),
        ((reports.PASS, reports.WARN, reports.UNKNOWN), True, "1 unknown, 1 warned: driver_answers, rdma_is_calm"),
        ((reports.SKIP,), False, "nothing could be judged"),
    ],
)
def test_npd_says_the_verdict_in_a_line(checks: Any, strict: bool, line: str) -> None:
    assert writer("npd")(report(*checks, strict=strict)) == line + "\n"


def test_npd_is_one_line_of_at_most_eighty_bytes(told: Report) -> None:
    text = writer("npd")(told).encode()
    assert text.count(b"\n") == 1 and len(text) <= 81


def test_npd_cuts_with_a_sign() -> None:
    many = [reports.made(f"limits_are_high_in_place_{index}", reports.FAIL.run(reports.NOW)) for index in range(9)]
    text = writer("npd")(report(*many))
    assert len(text) == 81 and text.startswith("9 failed: ") and text.endswith("...\n")

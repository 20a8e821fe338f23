"""Inputs that people met in public, with the right answer to each: a file in tests/ds_cases is a test.

RIG_DS_CASES=DIR takes another folder of the same schema.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from rig.judge import Judgement, judge

FOLDER = Path(os.environ.get("RIG_DS_CASES") or Path(__file__).parent / "ds_cases")
CASES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
# Words that carry no fact; numbers, names and keys of a message must be said.
_FILLER = (
    "a an and are as at be but by can does every for from has have if in into is it its itself more must never no not "
    "of on one or own so than that the their them then there they this to too was will with without you your "
    "would could should may instead use run add give write set all only needs need"
)
FILLER = frozenset(_FILLER.split())
SAID = 0.6  # share of a message's words that ours must hold; the rest is another wording of the same


def matches(want: Any, got: Any) -> bool:
    """Whether got has what want asks for: dicts are subsets, {"type": "int", "min", "max", "in"} is a range."""
    if isinstance(want, dict) and "type" in want and set(want) <= {"type", "min", "max", "in"}:
        kinds = {"int": int, "str": str, "bool": bool, "float": float}
        right = isinstance(got, kinds[want["type"]]) and (want["type"] == "bool" or not isinstance(got, bool))
        low, high, allowed = want.get("min"), want.get("max"), want.get("in")
        return right and (low is None or got >= low) and (high is None or got <= high) and got in (allowed or [got])
    if isinstance(want, dict):
        return isinstance(got, dict) and all(key in got and matches(value, got[key]) for key, value in want.items())
    if isinstance(want, bool) or want is None:
        return got is want
    return bool(want == got)


def words(text: str) -> set[str]:
    """What a message says: its words and numbers, a little of their grammar taken off."""
    found = re.findall(r"[a-z_]+[a-z0-9_]*|\d+", text.lower())
    return {word.rstrip("s") if len(word) > 3 else word for word in found} - FILLER


def said(want: str, judgement: Judgement) -> float:
    asked = words(want)
    told = words(" ".join(f"{finding.text} {finding.subject} {finding.fix}" for finding in judgement.findings))
    return len(asked & told) / max(1, len(asked))


@pytest.mark.parametrize("name", CASES)
def test_the_case_is_answered_as_known(name: str) -> None:
    case = CASES[name]
    expected = case["expected"]
    told = judge(case["kind"], case["input"], case["world"])
    assert told.verdict == expected["verdict"], told.findings
    assert expected["code"] in told.codes, told.findings
    if "output" in expected:
        assert matches(expected["output"], told.output), told.output
    if "suggest" in expected:
        assert matches(expected["suggest"], told.suggest), told.suggest
    if "message" in expected:
        assert said(expected["message"], told) >= SAID, (expected["message"], told.findings)
    if "ssh_config" in expected:
        assert list(told.ssh_config) == expected["ssh_config"]


def test_there_are_cases() -> None:
    assert CASES, f"no case in {FOLDER}"


def test_the_matcher_tells_ranges_from_values() -> None:
    assert matches({"a": {"type": "int", "min": 1, "max": 3}}, {"a": 2, "b": 0})
    assert not matches({"a": {"type": "int", "min": 1}}, {"a": True})
    assert not matches({"a": {"type": "int", "in": [1, 2]}}, {"a": 3})
    assert not matches({"a": 1}, {})
    assert not matches({"enabled": True}, {"enabled": 1})

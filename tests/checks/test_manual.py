"""docs/checks.md is the catalogue's own words. BLESS=1 writes it anew."""

import os
from pathlib import Path

import pytest

from checks import LEVELS
from checks.catalogue import FAMILIES, checks_of
from checks.manual import manual, page

MANUAL = Path(__file__).parents[2] / "docs" / "checks.md"
EVERY = checks_of(LEVELS[-1])


def test_the_manual_is_what_the_catalogue_says() -> None:
    if os.environ.get("BLESS") == "1":
        MANUAL.write_text(manual(), encoding="utf-8")
    assert MANUAL.read_text(encoding="utf-8") == manual(), "BLESS=1 pytest tests/checks/test_manual.py writes it anew"


def test_every_check_and_family_has_its_place() -> None:
    lines = manual().splitlines()
    assert [line[3:] for line in lines if line.startswith("## ")][-len(FAMILIES) :] == list(FAMILIES)
    assert [line[4:] for line in lines if line.startswith("### ")] == [one.id for one in EVERY]
    assert sum(int(line.split("|")[3]) for line in lines if line.startswith(tuple(f"| {x} |" for x in LEVELS))) == len(
        EVERY
    )


@pytest.mark.parametrize("one", EVERY, ids=[one.id for one in EVERY])
def test_a_page_says_what_to_do(one: object) -> None:
    check = next(each for each in EVERY if each is one)
    text = page(check)
    assert check.fix in text and check.domain in text and f"Level {check.at}" in text
    assert (check.run.__doc__ or "").splitlines()[0] in text
    assert all(f"\n\n{label}" in text for label in ("Symptom:", "Source:") if label in (check.run.__doc__ or ""))

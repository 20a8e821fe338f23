"""docs/checks.md is the catalogue's own words. BLESS=1 writes it anew."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from checks import LEVELS, Check, Need
from checks.catalogue import FAMILIES, checks_of
from checks.manual import LABELS, manual, page
from rig.finding import Finding
from rig.snapshot import Snapshot

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
def test_a_page_has_all_words_of_its_check_and_tells_symptom_and_source_apart(one: Check) -> None:
    *told, facts = page(one).split("\n\n")
    assert " ".join(told).split() == (one.run.__doc__ or "").split()
    for label in LABELS:
        assert len([part for part in told if part.startswith(label) and part.removeprefix(label).strip()]) == 1, label
    assert told[0].endswith(".") and not told[0].startswith(LABELS)  # what should hold, before what is seen
    assert facts.startswith(f"Level {one.at}, ")


def test_the_facts_of_a_check_are_in_its_last_paragraph() -> None:
    def bus_is_wide(now: Snapshot) -> Iterable[Finding]:
        """The bus is wide.

        Why it
        matters.
        Symptom: slow.
        Source: a file.
        """
        return ()

    needs = (Need("bus", "no bus", lambda now: True), Need("gpu", "no GPU", lambda now: True))
    one = Check("bus_is_wide", "pcie", "full", needs, "warn", "host", "widen it", bus_is_wide, "shm", also=("disk",))
    told = ["The bus is wide.", "Why it\nmatters.", "Symptom: slow.", "Source: a file."]
    facts = "Level full, warn, host; needs `bus`, `gpu`, probes `shm`, `disk`. Fix: widen it"
    assert page(one) == "\n\n".join((*told, facts))
    bare = one._replace(needs=(), probe=None, also=())
    assert page(bare) == "\n\n".join((*told, "Level full, warn, host; needs nothing. Fix: widen it"))

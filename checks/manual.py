"""docs/checks.md out of the catalogue: a check's docstring is its page. Pure; `python -m checks.manual` prints it."""

from inspect import cleandoc

from checks import LEVELS, Check
from checks.catalogue import FAMILIES, family_checks
from checks.running import BUDGET_S
from rig.lean import Iterable, Iterator

HEAD = """# Checks

Made from the catalogue in `checks/` (`python -m checks.manual`); do not edit. `rig check --explain ID` shows the same for
one check, docs/check.md tells how to run them.
"""
LABELS = ("Symptom", "Source")


def manual(families: Iterable[str] = FAMILIES) -> str:
    """The whole page."""
    checks = [(family, family_checks(family)) for family in families]
    return "\n".join((HEAD, *_summary([one for _, found in checks for one in found]), *_pages(checks)))


def _summary(checks: list[Check]) -> Iterator[str]:
    yield "| level | time | checks of its own |\n| --- | --- | --- |"
    for level in LEVELS:
        budget = BUDGET_S[level]
        limit = f"at most {budget:g} s" if budget is not None else "within the boot"
        yield f"| {level} | {limit} | {sum(one.at == level for one in checks)} |"
    yield ""


def _pages(checks: list[tuple[str, list[Check]]]) -> Iterator[str]:
    for family, found in checks:
        yield f"## {family}\n"
        for one in found:
            yield f"### {one.id}\n\n{page(one)}\n"


def page(one: Check) -> str:
    """What there is to know of one check, as Markdown that reads well as plain text."""
    needs = ", ".join(f"`{need.name}`" for need in one.needs) or "nothing"
    probe = f", probe `{one.probe}`" if one.probe else ""
    facts = f"Level {one.at}, {one.severity}, {one.domain}; needs {needs}{probe}. Fix: {one.fix}"
    return "\n\n".join((*_paragraphs(one), facts))


def _paragraphs(one: Check) -> Iterator[str]:
    """The docstring; symptom and source begin paragraphs of their own, as they begin lines there."""
    lines: list[str] = []
    for line in cleandoc(one.run.__doc__ or "").splitlines():
        if not line or line.startswith(tuple(f"{label}:" for label in LABELS)):
            if lines:
                yield "\n".join(lines)
            lines = [line] if line else []
        else:
            lines.append(line)
    if lines:
        yield "\n".join(lines)


if __name__ == "__main__":
    import sys

    sys.stdout.write(manual())

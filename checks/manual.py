"""docs/checks.md out of the catalogue: a check's docstring is its page. Pure; `python -m checks.manual` prints it."""

import ast
from inspect import cleandoc, getsource
from textwrap import dedent

from checks import LEVELS, Check
from checks.catalogue import FAMILIES, family_checks
from checks.running import BUDGET_S
from rig.lean import Iterable, Iterator

HEAD = """# Checks

Can this machine train with this image? `rig check` looks, measures and judges; what is wrong comes with who must act
and what to type. This page is made from the catalogue in `checks/`, by `python -m checks.manual`.

| command | |
| --- | --- |
| `rig check` | the level quick |
| `rig check --level full --junit FILE` | measures too; for a CI system: `--json`, `--junit`, `--tap`, `--html` |
| `rig check --expect gpus=8,hcas=8,gdr=1` | what was sold must be there (or `RIG_EXPECT`) |
| `rig check --no-skip gpu,rdma` | what would be skipped for want of these fails |
| `rig check --save FILE`, `--from FILE` | keep what was looked at; judge it again, anywhere |
| `rig check --only ID,FAMILY` | some checks; `--list` has all, `--explain ID` their pages |
| `rig check --prom FILE`, `--npd` | for Prometheus' textfile collector; for Kubernetes' node-problem-detector |

Exit code: 0 passed, perhaps with warnings; 1 failed; 2 what would be a failure could not be judged, or nothing was;
3 wrong usage, or nothing failed and a report could not be written. `--strict`: warnings and what could not be told
fail.

Outcomes: pass, warn, fail, skip (does not apply here), unknown (could not be judged). The last two are no pass.

Who must act: user (who types `docker run`, or writes the job), image (who builds it), host (who owns the machine),
platform (who runs the cluster, the marketplace, the network).

What may hang is a child with a deadline. Past it, it is ended, or left and named where nothing ends it; after one that
was left nothing asks the driver again. The time of a level holds for looking too: what it cuts is unknown, and two
seconds later all has ended. What is known is in `checks.json` in rig's folder (docs/entrypoint.md), from the start and
after every step, `"partial": true` until the end, in the form of docs/check-results.schema.json.
"""
LABELS = ("Symptom:", "Source:")


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
    names = ", ".join(f"`{name}`" for name in one.probes)
    probes = f", probe{'s' if len(one.probes) > 1 else ''} {names}" if names else ""
    facts = f"Level {one.at}, {one.severity}, {one.domain}; needs {needs}{probes}. Fix: {one.fix}"
    return "\n\n".join((*_paragraphs(one), facts))


def docstring(one: Check) -> str:
    """What stands under the check's name. The packed rig of an image has no docstrings, but its sources beside it."""
    if one.run.__doc__:
        return cleandoc(one.run.__doc__)
    function = ast.parse(dedent(getsource(one.run))).body[0]
    assert isinstance(function, ast.FunctionDef)
    return ast.get_docstring(function) or ""


def _paragraphs(one: Check) -> Iterator[str]:
    """The docstring; symptom and source begin paragraphs of their own, as they begin lines there."""
    lines: list[str] = []
    for line in docstring(one).splitlines():
        if not line or line.startswith(LABELS):
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

"""Launches, plans, compiled ops, signals, self-tests: a few facts against the rules of their kind.

A boot judges files (rig.judge.files, judge_config). These facts are only there once several nodes answered over ssh, an
op was built, or a self-test ran: for who looks at a fleet or an image.

A rule of these kinds yields rulings whose edits have a path in the output: ("env", NAME), ("args",), or a config's key.
"""

from rig.dsconfig import Change
from rig.judge import launch, network, ops, planning
from rig.judge.ruling import Judgement, Ruling, apply, judgement
from rig.lean import Any, Callable, Iterator, Mapping

Facts = Mapping[str, Any]
Rule = Callable[[Facts, Facts], Iterator[Ruling]]
RULES: Mapping[str, tuple[Rule, ...]] = {
    "launch": (*launch.RULES, *network.RULES),
    "plan": planning.RULES,
    "ops": ops.OPS,
    "signal": ops.SIGNALS,
    "selftest": ops.SELFTESTS,
}


def judge_facts(kind: str, given: Facts, world: Facts) -> Judgement:
    """The judgement on facts of a kind; `output` holds only what is to be added or set."""
    rulings: list[Ruling] = []
    changes: list[Change] = []
    output: dict[str, Any] = {}
    for rule in RULES[kind]:
        for ruling in rule(given, world):
            rulings.append(ruling)
            for edit in ruling.edits:
                if edit.path == ("args",):
                    output["args"] = [*output.get("args", []), *edit.value]
                else:
                    changes += apply(output, (edit,), ruling.message)
    return judgement(rulings, output, subject=kind, changes=tuple(changes))

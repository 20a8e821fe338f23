"""A DeepSpeed config against all rules, one after the other: each sees what those before it have repaired."""

from rig.dsconfig import Change, copy_of
from rig.judge import auto, batch, keys, numbers, semantics, text
from rig.judge.ruling import Judgement, Ruling, apply, judgement
from rig.judge.site import Site, site_of
from rig.lean import Any, Callable, Iterator, Mapping

Rule = Callable[[Mapping[str, Any], Site], Iterator[Ruling]]
RULES: tuple[Rule, ...] = (
    *keys.RULES,
    *auto.RULES,
    *numbers.RULES,
    *batch.RULES,
    *semantics.RULES,
    *numbers.LAST,
    *keys.LAST,
)


def judge_parsed(config: Mapping[str, Any], world: Mapping[str, Any], name: str) -> Judgement:
    """See rig.judge.judge_config."""
    return _judged(copy_of(config), world, name, ())


def judge_written(written: str, world: Mapping[str, Any], name: str) -> Judgement:
    """See rig.judge.judge_config_text."""
    found = text.read(written, name)
    if found.config is None:
        return judgement(found.rulings, None)
    return _judged(found.config, world, name, found.rulings)


def _judged(copy: dict[str, Any], world: Mapping[str, Any], name: str, before: tuple[Ruling, ...]) -> Judgement:
    site = site_of(world)
    rulings, changes = list(before), list[Change]()
    for rule in RULES:
        found = tuple(rule(copy, site))
        rulings += found
        for ruling in found:
            changes += apply(copy, ruling.edits, ruling.message)
    return judgement(rulings, copy, subject=name, changes=tuple(changes))

"""What a rule says about one input, and how many of them become a judgement."""

from rig.dsconfig import Change
from rig.finding import Finding
from rig.lean import Any, Iterable, Mapping, NamedTuple

# From worst to best. "require" is a property that the launcher must have; nothing in the input is wrong.
VERDICTS = ("reject", "fix", "require", "warn", "accept")
OUTCOMES = {"reject": "fail", "fix": "warn", "require": "warn", "warn": "warn", "accept": "pass"}


class Remove:
    """Stands for a key that is taken out."""


REMOVE = Remove()


class Edit(NamedTuple):
    """One repair: the path of the key from the top, and its value (REMOVE takes the key out)."""

    path: tuple[str, ...]
    value: Any


class Ruling(NamedTuple):
    """One statement. `key` is the dotted name, `line` or host that it is about; `fix` what the user types."""

    verdict: str
    code: str
    message: str
    key: str = ""
    fix: str = ""
    edits: tuple[Edit, ...] = ()
    suggest: Mapping[str, Any] = {}  # noqa: RUF012 - never written to


class Judgement(NamedTuple):
    """The outcome for one input.

    `verdict` is the worst of VERDICTS that any rule gave, `code` and `message` are of the first rule that gave it.
    `output` is the whole repaired input (config, text, or `env` and `args` to add), None where nothing can be written.
    `suggest` is advice to print, never applied. `findings` has one line for each rule that spoke; `changes` each key
    that differs in the output; `ssh_config` the host entries that a repaired hostfile needs.
    """

    verdict: str
    code: str = ""
    output: Any = None
    message: str = ""
    suggest: Mapping[str, Any] = {}  # noqa: RUF012 - never written to
    findings: tuple[Finding, ...] = ()
    changes: tuple[Change, ...] = ()
    ssh_config: tuple[Mapping[str, Any], ...] = ()

    @property
    def codes(self) -> tuple[str, ...]:
        """Ids of everything that was found, worst first within the order of the rules."""
        return tuple(finding.id for finding in self.findings)


def judgement(
    rulings: Iterable[Ruling], output: Any, *, subject: str = "", domain: str = "user", changes: tuple[Change, ...] = ()
) -> Judgement:
    """Rulings as one judgement: worst verdict first, findings in the order given."""
    found = tuple(rulings)
    if not found:
        return Judgement("accept", output=output)
    worst = min(found, key=lambda ruling: VERDICTS.index(ruling.verdict))
    suggest: dict[str, Any] = {}
    for ruling in found:
        _merge(suggest, ruling.suggest)
    findings = tuple(
        Finding(
            ruling.code,
            OUTCOMES[ruling.verdict],
            domain,
            ruling.message,
            subject=": ".join(filter(None, (subject, ruling.key))),
            fix=ruling.fix,
        )
        for ruling in found
    )
    told = output if worst.verdict != "reject" else None
    return Judgement(worst.verdict, worst.code, told, worst.message, suggest, findings, changes)


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def apply(config: dict[str, Any], edits: Iterable[Edit], reason: str) -> tuple[Change, ...]:
    """Writes the edits into config; sections that are missing are made. Edits that change nothing are left out."""
    changes = []
    for edit in edits:
        section, before = config, None
        for part in edit.path[:-1]:
            inner = section.get(part)
            if not isinstance(inner, dict):
                if edit.value is REMOVE:
                    break
                inner = section[part] = {}
            section = inner
        last = edit.path[-1]
        before = section.get(last)
        if edit.value is REMOVE:
            section.pop(last, None)
        else:
            section[last] = edit.value
        after = None if edit.value is REMOVE else edit.value
        if type(before) is not type(after) or before != after:
            changes.append(Change(".".join(edit.path), before, after, reason))
    return tuple(changes)

"""The DeepSpeed config of a script: the user's own, filled in a copy, or the generated one where none was given."""

import os

from entrypoint.say import Voice
from entrypoint.state import write_file
from rig.arguments import missing_config, named_config, with_config
from rig.dsconfig import ConfigError, fill, parse_config, render
from rig.lean import NamedTuple
from rig.plan import Plan
from rig.scriptargs import ScriptFacts, look_at_script


class Refused(Exception):
    """The user's config cannot be used; the text is one line."""


class Prepared(NamedTuple):
    """A script's words with the config that it will read, and what its syntax tree told."""

    words: tuple[str, ...]
    facts: ScriptFacts | None = None


def script_facts(path: str) -> ScriptFacts | None:
    """What the script takes; None where it cannot be read or is not Python."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return look_at_script(file.read())
    except OSError:
        return None


def prepare(
    script: str, words: tuple[str, ...], plan: Plan, folder: str | None, do_fill: bool, voice: Voice
) -> Prepared:
    """The words to start the script with. Raises Refused where the named config is missing or no config."""
    facts = script_facts(script)
    ours = f"{folder}/ds_config.json" if folder else None
    named = named_config(words, facts)
    if named is not None and named.path != ours:
        copy = _filled_copy(named.path, plan, folder, do_fill, voice)
        return Prepared(with_config(words, named, copy) if copy else words, facts)
    added = missing_config(words, facts, ours) if ours and do_fill else ()
    if added:
        voice.notice(
            f"{script} takes a DeepSpeed config and was given none: {' '.join(added)} is added (RIG_FILL=0: not)"
        )
    return Prepared((*added, *words), facts)


def _filled_copy(path: str, plan: Plan, folder: str | None, do_fill: bool, voice: Voice) -> str | None:
    """The path of the copy; None where the user's file stays in use."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "not a text file in UTF-8"
        raise Refused(f"{path}: {why} (DeepSpeed config)") from None
    try:
        config, changes = fill(parse_config(text, path), {one.name: one for one in plan.ds_config})
        copied = render(config) if changes else ""
    except ConfigError as error:
        raise Refused(str(error)) from None
    if not changes or not do_fill or folder is None:
        return None
    copy = f"{folder}/{os.path.basename(path).rpartition('.')[0] or 'ds_config'}.filled.json"
    why_not = write_file(copy, copied)
    if why_not is not None:
        voice.warning(f"{copy} was not written ({why_not}): {path} is used as it is")
        return None
    voice.notice(f"{path} leaves room; filled in the copy {copy} (RIG_FILL=0: not):")
    voice.notice(*(f"  {one.key}: {_shown(one.before)} -> {one.after} ({one.reason})" for one in changes))
    return copy


def _shown(value: object) -> str:
    return "absent" if value is None else str(value)

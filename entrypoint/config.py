"""The DeepSpeed config of a script: the user's own, filled in a copy, or the generated one where none was given."""

import os

from entrypoint.say import Voice
from entrypoint.state import write_file
from rig.arguments import missing_config, named_config, with_config
from rig.dsconfig import ConfigError, fill, parse_config, render, stage_of
from rig.lean import Any
from rig.plan.compose import Composed
from rig.scriptargs import ScriptFacts, look_at_script


class Refused(Exception):
    """The user's config cannot be used; the text is one line."""


def script_facts(path: str) -> ScriptFacts | None:
    """What the script takes; None where it cannot be read or is not Python."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return look_at_script(file.read())
    except OSError:
        return None


class Configs:
    """Gives a script its config. `folder` is where copies go (None: nowhere), `do_fill` is RIG_FILL."""

    def __init__(self, composed: Composed, folder: str | None, do_fill: bool, voice: Voice) -> None:
        self.composed, self.folder, self.voice = composed, folder, voice
        self.do_fill = do_fill and folder is not None

    def words_for(self, script: str, words: tuple[str, ...], facts: ScriptFacts | None) -> tuple[str, ...]:
        """The words to start the script with. Raises Refused where the named config is missing or is no config."""
        ours = f"{self.folder}/ds_config.json"
        named = named_config(words, facts)
        if named is not None and named.path != ours:
            copy = self._filled_copy(named.path)
            return words if copy is None else with_config(words, named, copy)
        added = missing_config(words, facts, ours) if self.do_fill else ()
        if added:
            text = f"{script} takes a DeepSpeed config and was given none: {' '.join(added)} is added (RIG_FILL=0: not)"
            self.voice.notice(text)
        return (*added, *words)

    def _filled_copy(self, path: str) -> str | None:
        """The path of the copy; None where the user's file stays in use."""
        try:
            config = parse_config(_text(path), path)
            copied, changes = fill(config, self.composed.ds_settings(stage_of(config)))
            text = render(copied) if changes else ""
        except ConfigError as error:
            raise Refused(str(error)) from None
        if not changes or not self.do_fill:
            return None
        copy = f"{self.folder}/{os.path.basename(path).rpartition('.')[0] or 'ds_config'}.filled.json"
        why_not = write_file(copy, text)
        if why_not is not None:
            self.voice.warning(f"{copy} was not written ({why_not}): {path} is used as it is")
            return None
        self.voice.notice(f"{path} leaves room; filled in the copy {copy} (RIG_FILL=0: not):")
        self.voice.notice(*(f"  {one.key}: {_shown(one.before)} -> {one.after} ({one.reason})" for one in changes))
        return copy


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror} (DeepSpeed config)") from None
    except ValueError:
        raise Refused(f"{path}: not a text file in UTF-8 (DeepSpeed config)") from None


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)

"""The DeepSpeed config of a script: the user's own, filled in a copy, or the generated one where none was given."""

import os

from entrypoint.say import Voice
from entrypoint.state import write_file
from rig.arguments import missing_config, named_config, with_config
from rig.dsconfig import ConfigError, fill, render, stage_of
from rig.lean import TYPE_CHECKING, Any
from rig.plan.compose import Composed
from rig.scriptargs import ScriptFacts, look_at_script

if TYPE_CHECKING:
    from rig.dsconfig import Change
    from rig.judge.ruling import Judgement, Ruling


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
            copy = self._copy(named.path)
            return words if copy is None else with_config(words, named, copy)
        added = missing_config(words, facts, ours) if self.do_fill else ()
        if added:
            text = f"{script} takes a DeepSpeed config and was given none: {' '.join(added)} is added (RIG_FILL=0: not)"
            self.voice.notice(text)
        return (*added, *words)

    def _copy(self, path: str) -> str | None:
        """The path of a copy that differs from the user's file; None where the file stays in use."""
        from rig.judge import judge_config
        from rig.judge.text import read

        written = read(_text(path), path)
        if written.config is None:
            raise Refused(". ".join(f"{one.key}: {one.message}" for one in written.rulings))
        filled, changes = fill(written.config, self.composed.ds_settings(stage_of(written.config)))
        judged = judge_config(filled, self.composed.site(), path)
        for finding in judged.findings:
            if finding.outcome == "fail":
                raise Refused(f"{finding.subject}: {finding.text}. {finding.fix}")
        if not self.do_fill:
            self._left_alone(path, judged)
            return None
        changes = (*changes, *judged.changes)
        reasons = [change.reason for change in changes]
        for finding in judged.findings:
            if finding.text not in reasons:
                self.voice.finding(finding)
        if not changes and not written.rulings:
            return None
        return self._write_copy(path, judged.output, changes, written.rulings)

    def _left_alone(self, path: str, judged: "Judgement") -> None:
        for finding in judged.findings:
            self.voice.finding(finding)
        if judged.verdict == "fix":
            self.voice.warning(f"{path} is used as it is (RIG_FILL=0)")

    def _write_copy(
        self, path: str, output: dict[str, Any], changes: "tuple[Change, ...]", rewritten: "tuple[Ruling, ...]"
    ) -> str | None:
        copy = f"{self.folder}/{os.path.basename(path).rpartition('.')[0] or 'ds_config'}.filled.json"
        try:
            why_not = write_file(copy, render(output))
        except ConfigError as error:
            raise Refused(str(error)) from None
        if why_not is not None:
            self.voice.warning(f"{copy} was not written ({why_not}): {path} is used as it is")
            return None
        self.voice.notice(f"{path} is used as the copy {copy} (RIG_FILL=0: as it is). What differs:")
        self.voice.notice(
            *(f"  {one.key}: {_shown(one.before)} -> {_shown(one.after)} ({one.reason})" for one in changes)
        )
        self.voice.notice(*(f"  {one.key}: {one.message}" for one in rewritten))
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
    if isinstance(value, bool):
        return "true" if value else "false"
    return "absent" if value is None else str(value)

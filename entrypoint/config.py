"""The DeepSpeed config of a script: the user's own, filled in a copy, or the generated one where none was given."""

import os

from entrypoint.say import Voice, sentence
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
    """Gives a script its config. `folder` is where copies go (None: nowhere), `ours` the path of the generated config
    (None: there is none), `do_fill` is RIG_FILL."""

    def __init__(self, composed: Composed, folder: str | None, ours: str | None, do_fill: bool, voice: Voice) -> None:
        self.composed, self.folder, self.ours, self.voice = composed, folder, ours, voice
        # Why the user's file is used as it is, in words; "" where it may be filled.
        self.kept = "RIG_FILL=0" if not do_fill else "there is no place for a copy" if folder is None else ""

    def words_for(self, script: str, words: tuple[str, ...], facts: ScriptFacts | None) -> tuple[str, ...]:
        """The words to start the script with. Raises Refused where the named config is missing or is no config."""
        named = named_config(words, facts)
        if named is not None and named.path != self.ours:
            if not named.path:
                raise Refused(f"{words[named.at] or 'the option for a DeepSpeed config'}: no path follows")
            copy = self._copy(named.path)
            return words if copy is None else with_config(words, named, copy)
        added = missing_config(words, facts, self.ours or "ds_config.json")
        if added and self.ours is None:
            self.voice.warning(f"{script} takes a DeepSpeed config and was given none, and none could be written here")
            return words
        if added and self.kept:
            self.voice.warning(f"{script} takes a DeepSpeed config and was given none ({self.kept}: none is added)")
            return words
        if added:
            text = f"{script} takes a DeepSpeed config and was given none: {' '.join(added)} is added (RIG_FILL=0: not)"
            self.voice.notice(text)
        return (*added, *words)

    def _copy(self, path: str) -> str | None:
        """The path of a copy that differs from the user's file; None where the file stays in use."""
        from rig.judge.text import read

        text, path = _text(path)
        written = read(text, path)
        if written.config is None:
            raise Refused(". ".join(_refusal(one) for one in written.rulings))
        if self.kept:
            self._left_alone(path, written.config)
            return None
        filled, changes = fill(written.config, self.composed.ds_settings(stage_of(written.config)))
        judged = self._judged(filled, path)
        changes = (*changes, *judged.changes)
        reasons = [change.reason for change in changes]
        for finding in judged.findings:
            if finding.text not in reasons:
                self.voice.finding(finding)
        if not changes and not written.rulings:
            return None
        copy = self._write_copy(path, judged.output, changes, written.rulings)
        if copy is None:
            self._left_alone(path, written.config)
        return copy

    def _judged(self, config: dict[str, Any], path: str) -> "Judgement":
        """The judgement of what will be used. Raises Refused where it cannot work."""
        from rig.judge import judge_config

        judged = judge_config(config, self.composed.site(), path)
        for finding in judged.findings:
            if finding.outcome == "fail":
                raise Refused(sentence(finding))
        return judged

    def _left_alone(self, path: str, config: dict[str, Any]) -> None:
        judged = self._judged(config, path)
        for finding in judged.findings:
            self.voice.finding(finding)
        if judged.verdict == "fix":
            self.voice.warning(f"{path} is used as it is ({self.kept or 'the copy was not written'})")

    def _write_copy(
        self, path: str, output: dict[str, Any], changes: "tuple[Change, ...]", rewritten: "tuple[Ruling, ...]"
    ) -> str | None:
        stem = os.path.basename(path).rpartition(".")[0] or "ds_config"
        copy = f"{self.folder}/{stem}.filled.json"
        try:
            why_not = write_file(copy, render(output))
        except ConfigError as error:
            raise Refused(str(error)) from None
        if why_not is not None:
            self.voice.warning(f"{copy} was not written: {why_not}")
            return None
        self.voice.notice(f"{path} is used as the copy {copy} (RIG_FILL=0: as it is). What differs:")
        self.voice.notice(
            *(f"  {one.key}: {_shown(one.before)} -> {_shown(one.after)} ({one.reason})" for one in changes)
        )
        self.voice.notice(*(f"  {one.key}: {one.message}" for one in rewritten))
        return copy


LIMIT_BYTES = 1 << 20  # DeepSpeed's own parser takes minutes for more, and no config has it


def _text(path: str) -> tuple[str, str]:
    """The text of the config, and its name for messages: a file, or where there is none the config itself in base64,
    as DeepSpeed 0.12.6 takes it (runtime/config.py, DeepSpeedConfig)."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise Refused(f"{path}: is no file; name a file with the DeepSpeed config")
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(LIMIT_BYTES + 1)
        if len(text) > LIMIT_BYTES:
            raise Refused(f"{path}: larger than 1 MiB; that is no DeepSpeed config")
        return text, path
    except OSError as error:
        decoded = _decoded(path)
        if decoded is not None:
            return decoded, "the config in base64"
        short = path if len(path) <= 80 else path[:77] + "..."
        place = "" if path.startswith("/") else f", looked for in {os.getcwd()}"
        raise Refused(f"{short}: {error.strerror} (DeepSpeed config{place})") from None
    except ValueError:
        raise Refused(f"{path}: not a text file in UTF-8 (DeepSpeed config)") from None


def _decoded(word: str) -> str | None:
    """The object that the word holds in URL-safe base64; None where it holds none."""
    from binascii import Error, a2b_base64

    try:
        text = a2b_base64(word.replace("-", "+").replace("_", "/").encode()).decode()
    except (Error, ValueError):
        return None
    return text if text.lstrip().startswith("{") else None


def _refusal(ruling: "Ruling") -> str:
    key = "" if ruling.message.startswith(ruling.key) else f"{ruling.key}: "
    return f"{key}{ruling.message}" + (f". {ruling.fix}" if ruling.fix else "")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "absent" if value is None else str(value)

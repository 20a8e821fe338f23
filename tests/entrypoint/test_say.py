"""What rig says: one line a thing, its subject named, and nothing in it that a terminal would obey."""

import sys
from typing import Any

import pytest

from entrypoint.say import Voice, sentence
from rig.finding import Finding


def test_control_characters_are_shown_not_obeyed(here: Any) -> None:
    done = here.boot("bad\nname\033[31m\u202e.py", RIG_STRANGE="x", **{"RIG_\033]0;x\a": "1"})
    assert done.code == 127
    assert len([line for line in done.lines if "error" in line]) == 1
    assert "bad\\nname\\x1b[31m\\u202e.py" in done.err
    assert "\033" not in done.err and "\a" not in done.err and "\u202e" not in done.err


def test_verbs_show_control_characters_too(here: Any) -> None:
    done = here.boot("rig", "plan", "--root", "/no/\033[31mfolder")
    assert done.code == 64 and "\\x1b[31m" in done.err and "\033" not in done.err
    (here.tree / "proc/sys/kernel").mkdir(parents=True)
    (here.tree / "proc/sys/kernel/osrelease").write_text("6.1\033[31m\n")
    (here.tree / "proc/sys/kernel/hostname").write_text("node\033[31m\n")
    for verb in (("plan", "--explain"), ("facts", "--root", str(here.tree))):
        done = here.boot("rig", *verb)
        assert done.out and "\033" not in done.out


def test_a_finding_names_its_subject() -> None:
    found = Finding("x", "warn", "user", "has no effect below stage 3", subject="ds.json: a.b", fix="Remove it")
    assert sentence(found) == "ds.json: a.b: has no effect below stage 3. Remove it"
    assert sentence(found._replace(text="ds.json: a.b is odd", fix="")) == "ds.json: a.b is odd"


def test_only_the_mark_is_coloured(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    Voice({}).warning("a\033[0mb")
    assert capfd.readouterr().err == "rig: \033[33mwarning\033[0m: a\\x1b[0mb\n"

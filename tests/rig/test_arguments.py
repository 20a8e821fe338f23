"""The config among a script's words is found, replaced or added, and nothing else is touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.arguments import Named, local_rank, missing_config, named_config, with_config
from rig.scriptargs import ScriptFacts

DEEPSPEED = ScriptFacts(config_option="--deepspeed_config", switch=True)
HUGGING_FACE = ScriptFacts(config_option="--deepspeed", local_rank=True)
OURS = "/run/rig/ds_config.json"


@pytest.mark.parametrize(
    ("words", "facts", "named"),
    [
        (("--deepspeed_config", "a.json"), None, Named(1, "", "a.json")),
        (("--deepspeed_config=a.json",), None, Named(0, "--deepspeed_config=", "a.json")),
        (("--deepspeed", "--deepspeed_config", "a.json"), DEEPSPEED, Named(2, "", "a.json")),
        (("--deepspeed", "a"), HUGGING_FACE, Named(1, "", "a")),
        (("--deepspeed=a",), None, Named(0, "--deepspeed=", "a")),
        (("--deepspeed", "corpus"), DEEPSPEED, None),
        (("--deepspeed", "a.json"), None, Named(1, "", "a.json")),
        (("--deepspeed", "corpus"), None, None),
        (("--deepspeed", "--steps", "3"), None, None),
        (("--deepspeed",), HUGGING_FACE, None),
        (("--ds_config", "a.json", "--deepspeed_config", "b.json"), None, Named(3, "", "b.json")),
        (("--", "--deepspeed_config", "a.json"), None, None),
        ((), None, None),
    ],
)
def test_the_config_that_the_user_named(words: tuple[str, ...], facts: ScriptFacts | None, named: Named | None) -> None:
    assert named_config(words, facts) == named


@given(st.lists(st.text(max_size=6)), st.sampled_from([("--deepspeed_config", "a"), ("--deepspeed_config=a",)]))
def test_only_the_path_changes(before: list[str], config: tuple[str, ...]) -> None:
    before = [word for word in before if word != "--" and not word.startswith("-")]
    words = (*before, *config, "--end")
    named = named_config(words, None)
    assert named is not None and named.path == "a"
    changed = with_config(words, named, "b")
    assert with_config(changed, named, "a") == words
    assert named_config(changed, None) == named._replace(path="b")


def test_a_script_that_takes_a_config_and_has_none_gets_ours() -> None:
    assert missing_config(("--steps", "3"), DEEPSPEED, OURS) == ("--deepspeed", "--deepspeed_config", OURS)
    assert missing_config(("--deepspeed",), DEEPSPEED, OURS) == ("--deepspeed_config", OURS)
    assert missing_config((), HUGGING_FACE, OURS) == ("--deepspeed", OURS)


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (("--deepspeed_config", "a.json"), DEEPSPEED),
        (("--config", OURS), DEEPSPEED),
        ((), ScriptFacts()),
        ((), None),
        ((), DEEPSPEED._replace(config_in_code=True)),
    ],
)
def test_nothing_is_added_where_it_is_not_missed(words: tuple[str, ...], facts: ScriptFacts | None) -> None:
    assert missing_config(words, facts, OURS) == ()


def test_the_local_rank_is_passed_to_a_parser_that_knows_it() -> None:
    assert local_rank((), HUGGING_FACE, 3) == ("--local_rank=3",)
    assert local_rank(("--local_rank", "0"), HUGGING_FACE, 3) == ()
    assert local_rank((), DEEPSPEED, 3) == ()
    assert local_rank((), None, 3) == ()

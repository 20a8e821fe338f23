"""The DeepSpeed config in a script's arguments: finding the one that the user named, adding ours where it is missed."""

from rig.lean import NamedTuple
from rig.scriptargs import CONFIG_OPTIONS, ScriptFacts


class Named(NamedTuple):
    """A config file among the words: `words[at]` is `prefix + path`."""

    at: int
    prefix: str
    path: str


def named_config(words: tuple[str, ...], facts: ScriptFacts | None) -> Named | None:
    """The config that the words name; the last one counts, as argparse has it. None where there is none.

    `--deepspeed` is a switch in some scripts and takes the path in others (Hugging Face): `facts` tell, and where they
    do not, a word that does not look like a config is not taken for one.
    """
    found = None
    for index, word in enumerate(words):
        if word == "--":
            break
        option, sign, value = word.partition("=")
        if option not in CONFIG_OPTIONS:
            continue
        if sign:
            found = Named(index, f"{option}=", value)
        elif index + 1 < len(words) and _takes_path(option, words[index + 1], facts):
            found = Named(index + 1, "", words[index + 1])
    return found


def _takes_path(option: str, following: str, facts: ScriptFacts | None) -> bool:
    if following.startswith("-"):
        return False
    if option != "--deepspeed":
        return True
    if facts is not None and (facts.config_option == "--deepspeed" or facts.switch):
        return facts.config_option == "--deepspeed"
    return following.endswith((".json", ".hjson"))


def with_config(words: tuple[str, ...], named: Named, path: str) -> tuple[str, ...]:
    """The words with another path in the place of the named config."""
    return (*words[: named.at], named.prefix + path, *words[named.at + 1 :])


def missing_config(words: tuple[str, ...], facts: ScriptFacts | None, path: str) -> tuple[str, ...]:
    """What to put in front of the words so that a script that takes a config gets ours; empty where it takes none, has
    one, or hands one to DeepSpeed in its code."""
    if facts is None or facts.config_option is None or facts.config_in_code or named_config(words, facts) is not None:
        return ()
    if any(path in word for word in words):
        return ()
    added = (facts.config_option, path)
    # add_config_arguments has both, and scripts ask the switch whether to use DeepSpeed at all.
    wanted = facts.switch and facts.config_option != "--deepspeed" and "--deepspeed" not in words
    return ("--deepspeed", *added) if wanted else added


def local_rank(words: tuple[str, ...], facts: ScriptFacts | None, rank: int) -> tuple[str, ...]:
    """`--local_rank=N` where the script's parser knows it, as DeepSpeed's launcher passes it (launcher/launch.py)."""
    if facts is None or not facts.local_rank:
        return ()
    if any(word.partition("=")[0] in ("--local_rank", "--local-rank") for word in words):
        return ()
    return (f"--local_rank={rank}",)

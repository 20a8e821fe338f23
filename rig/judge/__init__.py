"""What trainrig makes of the user's inputs: a config, a hostfile, an environment file, a launch.

Refuse what would change training, repair what only changes representation, warn on ignored keys, gate keys and bugs by
version, check every host, name the host and the reason. Rules are tuples of functions, a file a subject; each looks at
one thing and says one thing.
"""

from rig.judge.ruling import Judgement as Judgement
from rig.lean import Any, Mapping

KINDS = ("ds_config", "ds_config_text", "hostfile", "deepspeed_env", "launch", "plan", "ops", "signal", "selftest")


def judge(kind: str, given: Any, world: Mapping[str, Any]) -> Judgement:
    """The judgement on one input of a kind in KINDS, at a world given as plain names and values (rig.judge.site).

    Raises ValueError for a kind that does not exist, TypeError for an input of the wrong type.
    """
    if kind not in KINDS:
        raise ValueError(f"{kind} is none of {', '.join(KINDS)}")
    if kind in ("ds_config_text", "hostfile", "deepspeed_env"):
        if not isinstance(given, str):
            raise TypeError(f"{kind} is a text")
        return _TEXTS[kind](given, world)
    if not isinstance(given, Mapping):
        raise TypeError(f"{kind} is an object")
    if kind == "ds_config":
        return judge_config(given, world)
    from rig.judge.facts import judge_facts

    return judge_facts(kind, given, world)


def judge_config(config: Mapping[str, Any], world: Mapping[str, Any], name: str = "ds_config") -> Judgement:
    """A parsed config. `output` is the whole repaired copy, `changes` what differs; the input is not touched."""
    from rig.judge.config import judge_parsed

    return judge_parsed(config, world, name)


def judge_config_text(text: str, world: Mapping[str, Any], name: str = "ds_config") -> Judgement:
    """A config's text: how it is written, then what it says. `output` is the repaired config, to be rendered."""
    from rig.judge.config import judge_written

    return judge_written(text, world, name)


def judge_hostfile(text: str, world: Mapping[str, Any], name: str = "hostfile") -> Judgement:
    """A hostfile's text. `output` is the repaired text, `ssh_config` the host entries that it needs."""
    from rig.judge.hosts import judge_text

    return judge_text(text, world, name)


def judge_deepspeed_env(text: str, world: Mapping[str, Any], name: str = ".deepspeed_env") -> Judgement:
    """The text of a .deepspeed_env. `output` is the repaired text; `world["env"]` may hold the launch's variables."""
    from rig.judge.envfile import judge_text

    return judge_text(text, world, name)


_TEXTS = {"ds_config_text": judge_config_text, "hostfile": judge_hostfile, "deepspeed_env": judge_deepspeed_env}

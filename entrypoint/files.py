"""The files of a boot: facts, plan, checks, ds_config, hostfile, env, and this node's nccl.conf."""

import os

from entrypoint.look import NCCL_CONF, PLANNED, Seen, home_conf
from entrypoint.state import write_file
from rig import emit
from rig.lean import Mapping, NamedTuple
from rig.plan import Setting


class Written(NamedTuple):
    """`environment` goes to the program and to later shells; `problems` are lines about what could not be written;
    `config` is the path of ds_config.json (None: it could not be written)."""

    environment: tuple[Setting, ...]
    problems: tuple[str, ...] = ()
    config: str | None = None

    @property
    def added(self) -> dict[str, str]:
        return {one.name: str(one.value) for one in self.environment}


def write_files(
    seen: Seen, folder: str | None, environ: Mapping[str, str], checks: str, nccl_places: list[str]
) -> Written:
    """Write everything that the plan says. `checks` is the text of checks.json, `nccl_places` are the paths where NCCL
    looks for its conf, best first."""
    plan = seen.plan
    where, problems = _write_nccl(emit.nccl_conf(plan.nccl), nccl_places)
    node_local = plan.nccl if where is None else ()  # nowhere to write: the environment is the only way left
    environment = (*plan.environment, *node_local)
    if folder is None:
        return Written(
            _with_record(environment, environ), (*problems, "nothing can be written: no ds_config.json, no plan.json")
        )
    texts = {
        "facts.json": emit.facts_json(seen.machine),
        "plan.json": emit.plan_json(plan),
        "checks.json": checks,
        "ds_config.json": emit.ds_config(seen.composed.ds_config()),
        "hostfile": emit.hostfile(plan.hostfile),
    }
    missed = {name for name, text in texts.items() if _missed(f"{folder}/{name}", text, problems)}
    environment = (*environment, Setting("RIG_STATE", folder, "default", "where rig writes"))
    config = None if "ds_config.json" in missed else f"{folder}/ds_config.json"
    if config is not None:
        told = Setting("RIG_DS_CONFIG", config, "default", "the DeepSpeed config that fits this machine")
        environment = (*environment, told)
    environment = _with_record(environment, environ)
    # Only for this user (and root): variables of the user's own stand in it.
    _missed(f"{folder}/env", emit.env(environment, environ), problems, 0o600)
    return Written(environment, tuple(problems), config)


def _missed(path: str, text: str, problems: list[str], mode: int = 0o644) -> bool:
    why = write_file(path, text, mode)
    if why is not None:
        problems.append(f"{path} was not written: {why}")
    return why is not None


def _with_record(environment: tuple[Setting, ...], environ: Mapping[str, str]) -> tuple[Setting, ...]:
    new = [one for one in environment if environ.get(one.name) != str(one.value)]
    text = "\n".join(f"{one.name}={one.value}" for one in new)
    return (*environment, Setting(PLANNED, text, "default", "what rig added"))


def _write_nccl(text: str, places: list[str]) -> tuple[str | None, list[str]]:
    """Where the text went (None: nowhere, and there was something to say).

    A file that is not ours stays as it is; one of ours from an earlier boot is replaced, or removed when this machine
    needs none: an image committed on one machine may start on another.
    """
    where, problems = ("" if not text else None), []
    for place in places:
        old = _read(place)
        ours = old is not None and old.startswith(emit.NCCL_MARK)
        if where is not None:
            if ours:
                _remove(place)
        elif old is None or ours:
            why = write_file(place, text)
            if why is None:
                where = place
            else:
                problems.append(f"{place} was not written: {why}")
        else:
            problems.append(f"{place} is yours and stays as it is")
    if where is None:
        problems.append("NCCL's settings for this node go into the environment instead")
    return where, problems if where is None else []


def _read(path: str) -> str | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer would wait
    except FileNotFoundError:
        return None
    except OSError:
        return ""  # there, and not for us
    try:
        return os.read(handle, 1 << 16).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(handle)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def nccl_places(account: str | None, folder: str | None, replay: bool) -> list[str]:
    """/etc/nccl.conf, then the one in the home folder of the passwd entry (src/misc/param.cc, initEnv). A plan for
    another machine (RIG_ROOT) is only written down."""
    if replay:
        return [f"{folder}/nccl.conf"] if folder else []
    return [NCCL_CONF, *([home_conf(account)] if account else [])]

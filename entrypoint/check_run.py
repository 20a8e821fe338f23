"""A run of checks: look, judge what files tell, measure, judge the rest. What is known is kept after every step."""

import os
import sys
import time

from checks.probing import ProbeProgram
from checks.running import Judged, Selection, evaluate_all, merged
from entrypoint.start import find_program
from rig.children import Ended, Job, run_jobs
from rig.emit import is_secret
from rig.lean import Callable, Iterable, Mapping
from rig.root import Root
from rig.settings import Settings
from rig.snapshot import Probe, Snapshot

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = os.path.join(TOP, "checks", "probes")
VENV = "/opt/venv/bin"
# What checks may look at of the user's environment: names that begin so, and names; never what may be a secret.
PREFIXES = (
    *("NCCL", "TORCH", "PYTORCH", "CUDA", "NVIDIA", "DS_", "DEEPSPEED", "OMP_", "KMP_", "MKL_", "GLOO_", "UCX", "FI_"),
    *("HF_", "TRANSFORMERS_", "TRITON", "RIG_", "NSIGHT", "PYTHON", "LD_", "XDG_", "SLURM_", "OMPI_", "PMI", "MASTER_"),
)
NAMES: tuple[str, ...] = (
    *("HOME", "PATH", "USER", "TMPDIR", "LANG", "LC_ALL", "CC", "CXX", "MAX_JOBS", "VIRTUAL_ENV", "CONDA_PREFIX"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_SIZE", "NNODES", "KUBERNETES_SERVICE_HOST"),
)
# Runs a probe that needs rig's own modules: the interpreter is as isolated as that of the command `rig`.
OURS = "import runpy, sys; sys.path[:0] = [sys.argv.pop(1), '/opt/rig/lib']; sys.argv.pop(0); "
OURS += "runpy.run_path(sys.argv[0], run_name='__main__')"


def take(
    settings: Settings, environ: Mapping[str, str], level: str, account: str | None, until: float | None = None
) -> Snapshot:
    """Look at the machine, or at the one that `settings.root` names: all but the probes. `environ` is the user's own.

    At level boot only the boot's facts are there. `until`: the end of the level's time (monotonic seconds); of it the
    driver may keep the boot's facts waiting for half. Raises SettingsError as entrypoint.look does.
    """
    from entrypoint.look import open_root

    if settings.root is not None:  # nothing is started in another machine's files
        root = open_root(settings)
        return _take(settings, environ, level, account, until, root, root)
    from rig.in_time import InTime

    end = float("inf") if until is None else until
    within, at_first = InTime(end), InTime((time.monotonic() + end) / 2)
    try:
        return _take(settings, environ, level, account, until, within, at_first)
    finally:  # a signal may end it while children run
        at_first.end_all()
        within.end_all()


def _take(
    settings: Settings,
    environ: Mapping[str, str],
    level: str,
    account: str | None,
    until: float | None,
    root: Root,
    at_first: Root,
) -> Snapshot:
    from entrypoint.look import look
    from rig.expected import Expected

    seen = look(settings, environ, account=account, root=at_first)
    now = Snapshot(
        seen.machine,
        seen.plan,
        settings.expected or Expected(),
        looked_at(environ),
        pins() if settings.root is None else {},
        taken_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )
    if level == "boot":
        return now
    from rig.observe import observe

    host, image = observe(root, seen.machine, environ, until)
    return now._replace(host=host, image=image)


def looked_at(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of the user that checks look at."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if (name in NAMES or name.startswith(PREFIXES)) and not is_secret(name, value)
    }


def pins() -> dict[str, str]:
    """What the image is meant to hold: pins.toml beside the rooms; empty where it is not there."""
    from pathlib import Path

    from rig.pins import PinError, read_pins

    try:
        tables = read_pins(Path(TOP, "pins.toml")).args.values()
    except PinError:
        return {}
    return {name: value for table in tables for name, value in table.items()}


def examine(
    selection: Selection,
    now: Snapshot,
    until: float | None,
    environ: Mapping[str, str],
    no_skip: frozenset[str] = frozenset(),
    *,
    measures: bool = True,
    keep: Callable[[Snapshot, tuple[Judged, ...]], None] = lambda now, judged: None,
    tell: Callable[[Probe], None] = lambda probe: None,
) -> tuple[Snapshot, tuple[Judged, ...]]:
    """Run the probes and judge everything; the snapshot with what they told, and the results in catalogue order.

    `until`: the end of the level's time (monotonic seconds). `measures=False` runs no probe: a replay. `keep` is
    called with what is known once the files are judged and after every probe, `tell` after every probe.
    """
    known: dict[str, Judged] = {}
    asked = {one.name for one in selection.probes} if measures else set()

    def judge_those() -> None:
        """All that wait for no probe, or for none that has not ended."""
        awaited = asked - set(now.probes)
        those = [one for one in selection.checks if one.id not in known and not awaited & set(one.probes)]
        known.update((one.check.id, one) for one in evaluate_all(those, now, no_skip))
        keep(now, tuple(known.values()))

    def add(probe: Probe) -> None:
        nonlocal now
        now = now._replace(probes={**now.probes, probe.name: probe})
        tell(probe)
        judge_those()

    judge_those()
    if measures:
        _measure(selection.probes, now, until, environ, add)
    return now, tuple(evaluate_all(selection.checks, now, no_skip))  # once more, as a replay of the whole would have it


def _measure(
    programs: Iterable[ProbeProgram],
    now: Snapshot,
    until: float | None,
    environ: Mapping[str, str],
    add: Callable[[Probe], None],
) -> None:
    environ = {**{one.name: str(one.value) for one in now.plan.environment}, **environ, "LC_ALL": "C.UTF-8"}
    jobs = []
    for program in programs:
        missing = next((need.without for need in program.needs if not need.met(now)), None)
        argv = _command(program, environ.get("PATH", os.defpath)) if missing is None else None
        if missing is not None:
            add(Probe(program.name, "unasked", error=missing))
        elif argv is None:
            add(Probe(program.name, "absent", error="there is no python to run it"))
        else:
            jobs.append(Job(program.name, argv, program.timeout_s, environ, program.driver, program.alone))
    run_jobs(jobs, until, lambda ended: add(_probe(ended)))


def _probe(ended: Ended) -> Probe:
    """What a child said as the result of a probe; one that lacks a tool says so itself (`absent`), and one that was
    ended has said what it was at (`asking`)."""
    data = merged(ended.output)
    absent, asking = data.get("absent"), data.get("asking")
    if absent and ended.state in ("ok", "failed"):
        return Probe(ended.name, "absent", data, str(absent), ended.seconds)
    late = asking is not None and ended.state in ("unresponsive", "unasked")
    error = ended.error + (f", while it asked {asking}" if late else "")
    return Probe(ended.name, ended.state, data, error, ended.seconds)


def _command(program: ProbeProgram, search: str) -> tuple[str, ...] | None:
    """The command line of a probe; None where there is no Python of the user's."""
    path = os.path.join(PROGRAMS, program.program)
    if program.python == "rig":
        ours = sys.executable or "/usr/bin/python3"
        return (ours, "-I", "-S", "-c", OURS, TOP, path, *program.args)
    for folders in (VENV, search):
        for name in ("python3", "python"):
            python = find_program(name, folders)
            if python is not None:
                return (python, path, *program.args)
    return None

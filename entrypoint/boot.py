"""`rig boot -- WORDS`: look, plan, write, say, start. What the image does before anything else."""

import os

from entrypoint.say import Voice
from entrypoint.state import find_state
from rig.command import PLACEHOLDER, Command, classify
from rig.lean import TYPE_CHECKING
from rig.settings import Settings, SettingsError, read_settings, unknown_names

if TYPE_CHECKING:
    from entrypoint.judging import BootVerdict
    from entrypoint.look import Seen
    from rig.scriptargs import ScriptFacts

USAGE, CONFIGURATION = 64, 78
HOOKS = "/etc/rig/boot.d"


def run(argv: list[str]) -> int:
    """Boot, then start `argv`; the exit code where nothing took this process's place."""
    words = tuple(argv[1:] if argv[:1] == ["--"] else argv)
    if words[:1] == ("rig",):
        from entrypoint.__main__ import main

        return main(list(words[1:]))
    return Boot(dict(os.environ)).run(words)


class Boot:
    """One boot. Its parts are called in the order in which they stand here."""

    def __init__(self, environ: dict[str, str]) -> None:
        from entrypoint.look import users_own

        self.environ = users_own(environ)
        self.voice = _voice(environ)
        self.config: str | None = None  # path of the generated DeepSpeed config, once it is written
        self.settings = Settings()
        self.folder: str | None = None

    def run(self, words: tuple[str, ...]) -> int:
        code = self._heed() or self._settle() or self._hooks()
        if code:
            return code
        command = classify(
            words,
            terminal=os.isatty(0) and os.isatty(1),
            path=self.environ.get("PATH", os.defpath),
            look=_look_at,
            scripts=_scripts_here,
        )
        if command.kind == "refuse":
            self.voice.error(command.reason)
            return command.code
        return self._plan_and_start(command)

    def _heed(self) -> int:
        """Take in the RIG_ variables; 64 where one cannot be."""
        try:
            self.settings = read_settings(self.environ)
        except SettingsError as error:
            self.voice.error(str(error))
            return USAGE
        self.voice = _voice(self.environ)
        return 0

    def _settle(self) -> int:
        """A folder for our files, and a home for a user that has none; 64 where the folder that was named cannot be."""
        from entrypoint.home import prepare_home

        uid, gid = os.geteuid(), os.getegid()
        state = find_state(self.environ, uid, self.settings.state)
        if state.unfit is not None:
            self.voice.error(state.unfit)
            return USAGE
        self.folder = state.folder
        for line in state.refused:
            self.voice.warning(f"{line}: not used")
        home = prepare_home(self.environ, uid, gid, state.folder)
        self.environ.update(home.changes)
        self.account = home.account
        self.voice.page(*home.lines)
        return 0

    def _hooks(self) -> int:
        """Run the hooks; not 0 where a required one failed, or left a setting that cannot be."""
        if not os.path.isdir(HOOKS):
            return 0
        from entrypoint.hooks import run_hooks

        hooked = run_hooks(self.environ, self.folder, HOOKS, self.voice.notice)
        changed, self.environ = hooked.environ is not self.environ, hooked.environ
        code = self._heed() if changed else 0  # first, because a hook may say how loud rig is
        self.voice.page(*hooked.texts)
        for line in hooked.failed:
            if hooked.fatal:
                self.voice.error(line)
            else:
                self.voice.warning(line)
        return CONFIGURATION if hooked.fatal else code

    def _plan_and_start(self, command: Command) -> int:
        from entrypoint.files import nccl_places, write_files
        from entrypoint.look import failures, look
        from rig.emit import checks_json

        for name, near in unknown_names(self.environ):
            self.voice.warning(f"{name} is no setting of rig{f'; {near} is' if near else ''}")
        facts = None
        if command.kind == "script":
            from entrypoint.config import script_facts

            facts = script_facts(command.path)
        try:
            seen = look(self.settings, self.environ, facts, self.account)
        except SettingsError as error:
            self.voice.error(str(error))
            return error.code
        verdict = self._judge(seen)
        places = nccl_places(self.account, self.folder, self.settings.root is not None)
        written = write_files(seen, self.folder, self.environ, checks_json(*verdict), places)
        self.config = written.config
        self._page(seen)
        for problem in written.problems:
            self.voice.warning(problem)
        if self.settings.checks != "off":
            for finding in verdict.findings:
                self.voice.finding(finding)
        failed = failures(verdict.findings)
        if failed and self.settings.checks == "enforce":
            self.voice.error(f"{len(failed)} checks failed, and RIG_CHECKS=enforce: nothing is started")
            return CONFIGURATION
        return self._start(command, seen, {**self.environ, **written.added}, facts)

    def _judge(self, seen: "Seen") -> "BootVerdict":
        from entrypoint.judging import BootVerdict, judge_boot

        if self.settings.checks == "off":
            return BootVerdict(seen.plan.findings)
        return judge_boot(seen, self.settings, self.environ)

    def _page(self, seen: "Seen") -> None:
        from entrypoint.page import chosen_lines, config_line, found_line

        lines = [f"found {found_line(seen.machine)}", *(f"chose {line}" for line in chosen_lines(seen.plan))]
        config = config_line(seen.composed.ds_config(), self.config) if self.config else None
        self.voice.page(*lines, *([f"wrote {config}"] if config else []))

    def _start(self, command: Command, seen: "Seen", environ: dict[str, str], facts: "ScriptFacts | None") -> int:
        from entrypoint.start import become, find_program

        if command.kind == "page":
            self.voice.page("no command: docker run IMAGE train.py starts a script on all GPUs, bash a shell")
            return 0
        if command.kind == "shell":
            shell = find_program("bash", environ.get("PATH", os.defpath)) or "/bin/sh"
            return become(shell, (os.path.basename(shell),), environ, self.voice)
        words = command.argv[1:]
        if self.config is not None:
            words = tuple(word.replace(PLACEHOLDER, self.config) for word in words)
        elif any(PLACEHOLDER in word for word in words):
            self.voice.error(f"{PLACEHOLDER} has no path: no DeepSpeed config could be written. Nothing is started")
            return CONFIGURATION
        if command.kind == "script":
            return self._script(command.path, words, seen, environ, facts)
        return become(command.path, (command.argv[0], *words), environ, self.voice)

    def _script(
        self, path: str, words: tuple[str, ...], seen: "Seen", environ: dict[str, str], facts: "ScriptFacts | None"
    ) -> int:
        from entrypoint.config import Configs, Refused
        from entrypoint.start import Script, become, find_program, free_port, start_ranks
        from rig.arguments import local_rank
        from rig.plan.launch import place_of

        search = environ.get("PATH", os.defpath)
        python = next((p for n in ("python", "python3") if (p := find_program(n, search))), None)
        if python is None:
            self.voice.error(f"{path}: there is no python on PATH to run it")
            return 127
        try:
            configs = Configs(seen.composed, self.folder, self.config, self.settings.fill, self.voice)
            words = configs.words_for(path, words, facts)
        except Refused as error:
            self.voice.error(str(error))
            return CONFIGURATION
        if seen.world.started:
            self.voice.page(f"starts {path} once: {seen.world.source} has started the ranks, this is {seen.world.rank}")
            return become(python, (python, path, *words), environ, self.voice)
        place = place_of(seen.plan, free_port())
        if place is None:
            self.voice.error("this node has no place in the job: nothing is started")
            return CONFIGURATION
        told = {line.name: line for line in seen.plan.ranks}
        environ.setdefault("OMP_NUM_THREADS", str(told["omp_num_threads"].value))
        if "gloo_socket_ifname" in told:
            environ.setdefault("GLOO_SOCKET_IFNAME", told["gloo_socket_ifname"].value)
        count = f"{place.local_size} rank{'s' * (place.local_size > 1)} ({told['local_ranks'].reason})"
        meeting = f"world size {sum(place.slots)}, rank 0 at {place.master_addr}:{place.master_port}"
        self.voice.page(f"starts {path}: {count}, {meeting}")
        script = Script(python, path, lambda rank: (*local_rank(words, facts, rank), *words))
        return start_ranks(script, place, environ, self.settings.grace_s, self.folder, self.voice)


def _voice(environ: dict[str, str]) -> Voice:
    return Voice(environ, quiet=environ.get("RIG_QUIET") == "1")


def _look_at(path: str) -> str:
    from entrypoint.start import look_at

    return look_at(path)


def _scripts_here() -> list[str]:
    try:
        return sorted(name for name in os.listdir(".") if name.endswith(".py") and os.path.isfile(name))
    except OSError:
        return []

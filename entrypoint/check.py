"""`rig check`: can this machine train with this image; what is wrong, who must act, and what to do."""

import argparse
import os
import signal
import sys
import time

from checks import LEVELS
from checks.formats import FORMATS, json, writer
from checks.probing import PROBES
from checks.running import (
    BUDGET_S,
    DEFAULT_LEVEL,
    FAILED,
    USAGE,
    BadRequest,
    Judged,
    Report,
    Selection,
    find_check,
    known_needs,
    select,
)
from entrypoint.check_out import SAVE, complain, hold_streams, outputs, put, withdraw
from entrypoint.check_run import examine, take
from entrypoint.say import Voice
from entrypoint.state import find_state, write_file
from rig.emit import to_json
from rig.expected import ExpectedError, parse_expected
from rig.lean import Any
from rig.settings import Settings, SettingsError, read_settings, unknown_names
from rig.snapshot import Probe, Snapshot, SnapshotError, load_snapshot

ABOUT = """Can this machine train with this image: what is wrong, who must act, what to do.
Exit code: 0 passed (perhaps with warnings), 1 failed, 2 could not judge, 3 wrong usage, or
nothing failed and a report could not be written."""
SLOW_S = 2.0  # from then on there is a line for each probe, terminal or not
LONG = 100  # characters: a longer word of a value is cut (a name with the 80 that rig.settings shows is shorter)


class Parser(argparse.ArgumentParser):
    """Wrong usage is one line, and an exit code that no verdict has."""

    def error(self, message: str) -> Any:
        raise BadRequest(f"{message}; rig check --help has all words")

    def print_help(self, file: object = None) -> None:
        _say(self.format_help())


def run(argv: list[str]) -> int:
    """The verb; returns its exit code."""
    hold_streams()
    try:
        asked = _parser().parse_args(argv)
        if asked.explain is not None:
            return _explain(asked.explain)
        selection = select(asked.level, _words(asked.only), PROBES)
        if asked.list:
            return _list(selection if asked.level or asked.only else select(LEVELS[-1], (), PROBES))
        return Run(asked, selection).run()
    except (BadRequest, SettingsError, ExpectedError, SnapshotError) as error:
        complain(str(error))
        return USAGE
    except SystemExit as end:
        if end.code == 0:
            return 0  # --help
        raise


def _parser() -> argparse.ArgumentParser:
    parser = Parser("rig check", description=ABOUT, allow_abbrev=False, formatter_class=argparse.RawTextHelpFormatter)
    levels = ", ".join(f"{name} ({f'{limit:g} s' if (limit := BUDGET_S[name]) else 'files only'})" for name in LEVELS)
    parser.add_argument("--level", help=f"{levels}; default: {DEFAULT_LEVEL}")
    parser.add_argument("--only", metavar="ID,...", help="these checks, or families of them")
    parser.add_argument("--from", dest="snapshot", metavar="SNAPSHOT", help="judge a saved snapshot")
    parser.add_argument("--save", metavar="SNAPSHOT", help="keep everything that was looked at, to be judged again")
    parser.add_argument("--root", metavar="DIR|FILE", help="another machine: a `rig capture`, or a folder like one")
    for name, words in FORMATS.items():
        if name != "text":
            where = {"nargs": "?", "const": "-", "metavar": "FILE", "dest": f"to_{name}"}
            parser.add_argument(f"--{name}", help=words, **where)  # type: ignore[arg-type]
    parser.add_argument("--strict", action="store_true", help="warnings and what cannot be told fail too")
    parser.add_argument("--expect", metavar="gpus=8,...", help="what was sold (default: RIG_EXPECT); less fails")
    parser.add_argument("--no-skip", metavar="gpu,...", help="needs that must be met: what would be skipped fails")
    parser.add_argument("--list", action="store_true", help="level, family and id of every check")
    parser.add_argument("--explain", metavar="ID", help="what a check looks at, and why")
    return parser


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip() for word in (text or "").split(","))))


def _explain(name: str) -> int:
    from checks.manual import page

    one = find_check(name)
    return _say(f"{one.id}  [{one.family}]\n\n{page(one)}\n")


def _list(selection: Selection) -> int:
    return _say("".join(f"{one.at:5}  {one.family:11}  {one.id}\n" for one in selection.checks))


def _say(text: str) -> int:
    """What was asked for, on standard output. BadRequest where it does not get there."""
    if why := put("-", text):
        raise BadRequest(why)
    return 0


def _cut(text: str) -> str:
    return " ".join(word if len(word) <= LONG else f"{word[:77]}..." for word in text.split(" "))


class Run:
    """One run of checks. Its parts are called in the order in which they stand here."""

    def __init__(self, asked: argparse.Namespace, selection: Selection) -> None:
        self.began = time.monotonic()
        self.asked, self.selection = asked, selection
        self.no_skip = known_needs(_words(asked.no_skip))
        self.outputs = outputs(asked)
        self.settings = self._settings()
        self.state: str | None = None
        self.home: dict[str, str] = {}  # what a boot would change in the environment for a user without a home
        self.account: str | None = None
        self.texts: dict[str, tuple[Judged, str]] = {}  # of checks.json
        self.voice = Voice(os.environ, quiet=os.environ.get("RIG_QUIET") == "1")
        for name, near in unknown_names(self.environ):
            self.voice.warning(f"{name} is no setting of rig{f'; {near} is' if near else ''}")

    def _settings(self) -> Settings:
        from entrypoint.look import users_own

        self.environ = users_own(os.environ)
        try:
            settings = read_settings(self.environ)
        except SettingsError as error:
            raise BadRequest(_cut(str(error))) from None
        if self.asked.root is not None:
            if self.asked.snapshot is not None:
                raise BadRequest("--from and --root: one machine at a time")
            root = os.path.abspath(self.asked.root)
            if not os.path.exists(root):
                raise BadRequest(f"--root {root}: no such file or folder")
            settings = settings._replace(root=root)
        if self.asked.expect is not None:
            try:
                settings = settings._replace(expected=parse_expected(self.asked.expect))
            except ExpectedError as error:
                raise BadRequest(_cut(f"--expect {error}")) from None
        return settings

    def run(self) -> int:
        here = self.asked.snapshot is None and self.settings.root is None  # not another machine
        limit = BUDGET_S[self.selection.level]
        until = None if limit is None else self.began + limit
        if here:
            self.state = self._folder()
            self._write(Report(self.selection.level, (), strict=self.asked.strict, partial=True))
            self._settle()
            _end_children_with_us()
        now = self._snapshot(until)
        now, judged = examine(
            self.selection,
            now if here or self.asked.snapshot else _unmeasured(self.selection, now),
            until,
            {**os.environ, **self.home},
            self.no_skip,
            measures=here,
            keep=self._keep,
            tell=self._tell,
        )
        self._keep(now, judged, partial=False)
        report = self._report(now, judged)
        failed = [why for name, path in self.outputs.items() if (why := put(path, self._text(name, now, report)))]
        if failed:
            complain("; ".join(failed))
        return USAGE if failed and report.code != FAILED else report.code

    def _text(self, name: str, now: Snapshot, report: Report) -> str:
        return to_json(now, depth=3) + "\n" if name == SAVE else writer(name)(report)

    def _folder(self) -> str | None:
        """Where checks.json goes; None where nothing can be written."""
        state = find_state(self.environ, os.geteuid(), self.settings.state)
        if state.unfit is not None:
            raise BadRequest(state.unfit)
        return state.folder

    def _settle(self) -> None:
        """A home and caches as a boot gives them: what a training will have is judged, and measured with."""
        from entrypoint.home import prepare_home

        home = prepare_home(self.environ, os.geteuid(), os.getegid(), self.state)
        self.home, self.account = home.changes, home.account
        self.environ = {**self.environ, **home.changes}

    def _snapshot(self, until: float | None) -> Snapshot:
        path = self.asked.snapshot
        if path is None:
            return self._take(until)
        now = load_snapshot(path)
        told = self.asked.expect is not None and self.settings.expected
        return now._replace(expected=told) if told else now

    def _take(self, until: float | None) -> Snapshot:
        try:
            return take(self.settings, self.environ, self.selection.level, self.account, until)
        except SettingsError as error:
            name, _, rest = str(error).partition("=")
            if self.asked.root is None or name != "RIG_ROOT":
                raise
            raise BadRequest(f"--root {rest}") from None  # the word that was typed

    def _tell(self, probe: Probe) -> None:
        """Progress, where somebody waits for it."""
        if (sys.stderr is not None and sys.stderr.isatty()) or time.monotonic() - self.began > SLOW_S:
            took = f", {probe.seconds:.1f} s" if probe.seconds is not None else ""
            state = "cut" if probe.cut else probe.state
            self.voice.page(f"probe {probe.name}: {state}{took}{f' ({probe.error})' if probe.error else ''}")

    def _keep(self, now: Snapshot, judged: tuple[Judged, ...], partial: bool = True) -> None:
        """What is known so far, on disk: this process may be killed, and the machine may go away under it."""
        self._write(self._report(now, judged, partial))

    def _write(self, report: Report) -> None:
        """Into checks.json. The first, of nothing, takes the place of an older run's: that must not pass for this."""
        if self.state is None:
            return
        path = f"{self.state}/checks.json"
        why = write_file(path, json.write(report, self.texts))
        if why is not None:
            self.voice.warning(f"{path} was not written: {why}{withdraw(path)}")
            self.state = None

    def _report(self, now: Snapshot, judged: tuple[Judged, ...], partial: bool = False) -> Report:
        return Report(
            self.selection.level,
            judged,
            tuple(now.probes.values()),
            _machine(now),
            now.machine.surroundings.hostname,
            now.taken_at,
            round(time.monotonic() - self.began, 3),
            self.asked.strict,
            partial,
        )


def _machine(now: Snapshot) -> str:
    from entrypoint.page import found_line

    try:
        return found_line(now.machine)
    except (TypeError, ValueError, AttributeError):  # a snapshot that was written by hand
        return ""


def _unmeasured(selection: Selection, now: Snapshot) -> Snapshot:
    why = "another machine's files: nothing can be measured on it"
    return now._replace(probes={one.name: Probe(one.name, "unasked", error=why) for one in selection.probes})


def _end_children_with_us() -> None:
    """The signals that end a run go through Python, so that no child is left behind (rig.children, rig.in_time). Only
    the first counts: a second one would end the ending."""
    numbers = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]

    def end(number: int, _: object) -> None:
        for one in numbers:
            signal.signal(one, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for number in numbers:
        signal.signal(number, end)

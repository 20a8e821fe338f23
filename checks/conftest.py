"""The catalogue as a pytest suite: `pytest checks --hosts=docker://NAME` or `--hosts=ssh://HOST1,ssh://HOST2`.

On each host `rig check` looks once and sends its snapshot; the checks are judged here, one item a check, with all that
pytest has: -k, -m, JUnit XML. What would be a failure and could not be judged fails, and so does a host of which
nothing was judged; with pytest's own --strict so do warnings and all unknowns.
"""

from collections.abc import Callable
from typing import Any

import pytest
import testinfra  # type: ignore[import-untyped]  # it comes without types

from checks import LEVELS, Check, Result, evaluate
from checks.catalogue import FAMILIES, checks_of
from checks.formats import flat
from checks.remote import NoSnapshot, take_snapshot
from checks.running import BUDGET_S, BadRequest, known_needs
from rig.expected import ExpectedError, parse_expected
from rig.snapshot import Snapshot

CHECK, OUTCOME, HOST, FINDING, WHY = "check", "outcome", "host", "finding", "why"
SHOWN = ("fail", "unknown", "warn")  # each with its own lines at the end
# Seconds beyond a level's own, for the way there and the start of two programs; and for the boot's facts, which have no
# limit but those of what is asked.
BEYOND_S, FACTS_S = 60.0, 60.0
HOSTS = "hosts are such as docker://NAME, ssh://USER@HOST:PORT or local://, with commas between them"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("trainrig")
    group.addoption("--level", choices=LEVELS, default="quick", help="which checks run, and how deep the host looks")
    group.addoption("--no-skip", default="", help="needs that must be met: gpu,rdma (a skip for want of one fails)")
    group.addoption("--expect", help="what the host was sold as: gpus=8,hcas=8,gdr=1 (default: its RIG_EXPECT)")
    group.addoption("--check-timeout", type=float, help="seconds that a host may take to look (default: by level)")


def pytest_configure(config: pytest.Config) -> None:
    for name in (*FAMILIES, *LEVELS):
        config.addinivalue_line("markers", f"{name}: checks of this {'level' if name in LEVELS else 'family'}")
    try:
        parse_expected(config.getoption("--expect") or "")
    except ExpectedError as error:
        raise pytest.UsageError(f"--expect: {error}") from None
    try:
        known_needs(no_skip(config))
    except BadRequest as error:
        raise pytest.UsageError(f"--no-skip: {error}") from None
    hosts = config.getoption("--hosts")
    if hosts is not None and (why := _no_hosts(hosts.split(","), config.getoption("--connection"))):
        raise pytest.UsageError(f"--hosts={flat(hosts)}: {why}; {HOSTS}")


def _no_hosts(names: list[str], connection: str | None) -> str:
    """Why testinfra would not take these: it would say so with a traceback, once for each module."""
    for name in names:
        if not name.strip():
            return "a name is empty"
        try:
            testinfra.get_host(name, connection=connection)
        except Exception as error:
            return flat(str(error))
    return ""


def no_skip(config: pytest.Config) -> frozenset[str]:
    return frozenset(filter(None, config.getoption("--no-skip").split(",")))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "one" in metafunc.fixturenames:
        checks = checks_of(metafunc.config.getoption("--level"))
        metafunc.parametrize("one", [pytest.param(one, id=one.id, marks=_marks(one)) for one in checks])


def _marks(one: Check) -> list[pytest.MarkDecorator]:
    return [getattr(pytest.mark, one.family), getattr(pytest.mark, one.at)]


@pytest.fixture(scope="session")
def looked() -> dict[int, Snapshot | None]:
    """What each host sent; None: nothing that can be judged. By object: two users of a host can have one name."""
    return {}


@pytest.fixture
def snapshot(host: Any, looked: dict[int, Snapshot | None], request: pytest.FixtureRequest) -> Snapshot:
    """The host's snapshot, taken once. A host that sends none is one failure; its other checks are skipped."""
    if id(host) not in looked:
        looked[id(host)], why = _look(host, request.config.getoption)
        if why:
            pytest.fail(f"{_name(host)}: {why}", pytrace=False)
    now = looked[id(host)]
    if now is None:
        pytest.skip(f"{_name(host)} sent nothing to judge")
    return now


def _name(host: Any) -> str:
    """As --hosts has it; testinfra leaves the port out."""
    port = getattr(getattr(host.backend, "host", None), "port", None)
    return f"{host.backend.get_pytest_id()}{f':{port}' if port else ''}"


def _look(host: Any, option: Callable[[str], Any]) -> tuple[Snapshot | None, str]:
    try:
        return take_snapshot(host, option("--level"), option("--expect"), timeout_s(option)), ""
    except NoSnapshot as error:
        return None, str(error)


def timeout_s(option: Callable[[str], Any]) -> float:
    """What was asked for, else what the level may take and a minute."""
    told = option("--check-timeout")
    return float(told) if told is not None else (BUDGET_S[option("--level")] or FACTS_S) + BEYOND_S


@pytest.fixture
def result(one: Check, host: Any, snapshot: Snapshot, request: pytest.FixtureRequest) -> Result:
    """What the check says; told to the summary, and to JUnit as properties."""
    told = evaluate(one, snapshot, no_skip(request.config))
    said = [(FINDING, _line(finding)) for finding in told.findings] or [(WHY, flat(told.why))]
    about = [(HOST, _name(host)), (CHECK, one.id), (OUTCOME, told.outcome)]
    request.node.user_properties += [*about, *said]
    return told


def _line(finding: Any) -> str:
    return flat(f"{finding.text}. {finding.fix}" if finding.fix else finding.text)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Nothing judged is no pass: `rig check` ends with 2 there, and pytest would end with 0 for skips alone."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.exitstatus == pytest.ExitCode.OK and reporter is not None and _unjudged(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _unjudged(reporter: Any) -> list[str]:
    """Hosts of which every check was skipped or unknown."""
    return [name for name, reports in _by_host(reporter).items() if not set(_outcomes(reports)) - {"skip", "unknown"}]


def _outcomes(reports: list[list[tuple[str, str]]]) -> list[str]:
    return [dict(report)[OUTCOME] for report in reports]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for name, reports in sorted(_by_host(terminalreporter).items()):
        terminalreporter.section(f"checks of {name}, level {config.getoption('--level')}")
        for outcome in SHOWN:
            for report in (one for one in reports if (OUTCOME, outcome) in one):
                words = "; ".join(text for key, text in report if key in (FINDING, WHY))
                terminalreporter.line(f"{outcome.upper():8}{dict(report)[CHECK]}: {words}")
        counts = (f"{_outcomes(reports).count(word)} {word}" for word in ("pass", "fail", "unknown", "warn", "skip"))
        nothing = ": nothing was judged" if name in _unjudged(terminalreporter) else ""
        terminalreporter.line(f"{', '.join(counts)}{nothing}")


def _by_host(reporter: Any) -> dict[str, list[list[tuple[str, str]]]]:
    """The properties of each check that was judged. Only reports of calls: those of the set-up have them too."""
    found: dict[str, list[list[tuple[str, str]]]] = {}
    for key in ("passed", "failed", "skipped"):
        for report in reporter.stats.get(key, []):
            if report.when == "call" and (name := dict(report.user_properties).get(HOST)) is not None:
                found.setdefault(name, []).append(report.user_properties)
    return found

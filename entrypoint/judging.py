"""Judging at boot: the checks of level boot over facts and plan, with what the plan itself has found."""

from checks import Result, evaluate
from checks.catalogue import boot_checks
from entrypoint.look import Seen
from rig.expected import Expected
from rig.finding import Finding
from rig.lean import Mapping, NamedTuple
from rig.settings import Settings
from rig.snapshot import Snapshot

DRIVER = "driver>="  # as the container toolkit reads NVIDIA_REQUIRE_CUDA


class BootVerdict(NamedTuple):
    """`findings` are what there is to say, each thing once; `results` what each check came to."""

    findings: tuple[Finding, ...]
    results: tuple[Result, ...] = ()


def judge_boot(seen: Seen, settings: Settings, environ: Mapping[str, str]) -> BootVerdict:
    """What plan and checks have found. Where both say the same, the check speaks: it names the remedy on this host."""
    now = Snapshot(seen.machine, seen.plan, settings.expected or Expected(), environ, _pins(environ))
    results: list[Result] = []
    said: set[str] = set()
    for one in boot_checks(now):
        result = evaluate(one, now)
        results.append(result)
        if result.findings:
            said.update(one.covers)
    planned = tuple(finding for finding in seen.plan.findings if finding.id not in said)
    return BootVerdict((*planned, *(finding for result in results for finding in result.findings)), tuple(results))


def _pins(environ: Mapping[str, str]) -> dict[str, str]:
    """The one pin that a boot judges by, which the image has in its environment: pins.toml is for `rig check`."""
    floor = environ.get("NVIDIA_REQUIRE_CUDA", "")
    return {"DRIVER_FLOOR": floor.removeprefix(DRIVER)} if floor.startswith(DRIVER) else {}

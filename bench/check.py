"""What the checks cost: a boot with them against one without, and the wall time of the levels quick and full.

    bench/check.py [--rounds 40] [--looks 3] [--json FILE]

Boots take turns in one run, as in bench/boot.py, on the same machines on paper. The levels run in the image, on this
host's devices; their goals are 10 s and, on eight GPUs, 60 s.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP))

from bench.boot import MACHINES, alternating, command, installed, lay_out, states_of  # noqa: E402
from factory.engine import Engine, find_engine  # noqa: E402
from factory.run import run_flags  # noqa: E402
from factory.say import Refused  # noqa: E402
from rig.captured import Captured  # noqa: E402

LEVELS = {"quick": 10.0, "full": 60.0}  # goals in seconds


def boots(rounds: int) -> dict[str, float]:
    """Medians in milliseconds of `rig boot -- /bin/true` with RIG_CHECKS=report and =off on each machine."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        rig = str(installed(folder / "opt"))
        environ = {"PATH": os.defpath, "HOME": str(folder), "USER": "bench", "LOGNAME": "bench"}
        commands = {}
        for name in MACHINES:
            lay_out(Captured(str(TOP / "tests" / "machines" / name / "tree.txt")).tree, folder / name)
            for checks in ("off", "report"):
                told = {"RIG_ROOT": str(folder / name), "RIG_STATE": str(folder / f"state-{name}-{checks}")}
                commands[f"{name}, {checks}"] = command(
                    [rig, "boot", "--", "/bin/true"], {**environ, **told, "RIG_CHECKS": checks}
                )
        return alternating(commands, rounds, states_of(folder))


def levels(engine: Engine, image: str, looks: int) -> dict[str, list[float]]:
    """Wall seconds of `docker exec NAME rig check` at each level, in a container that runs already."""
    flags = run_flags(os.path.exists)
    name = f"rig-bench-{os.getpid()}"
    started = engine.call("run", "--detach", "--name", name, *flags, image, "sleep", "3600")
    try:
        if started.returncode:
            raise Refused(f"{image} cannot be started: {started.stderr.strip()}")
        return {level: [_look(engine, name, level) for _ in range(looks)] for level in LEVELS}
    finally:
        engine.call("rm", "--force", "--volumes", name)


def _look(engine: Engine, name: str, level: str) -> float:
    start = time.perf_counter()
    done = engine.call("exec", name, "rig", "check", "--level", level, timeout_s=600)
    took = time.perf_counter() - start
    if done.returncode not in (0, 1, 2):
        raise Refused(f"rig check --level {level} ended with {done.returncode}: {done.stderr.strip()}")
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description="What the checks cost")
    parser.add_argument("--rounds", type=int, default=40, help="of boots")
    parser.add_argument("--looks", type=int, default=3, help="in the image at each level; 0: none")
    parser.add_argument("--image", default=os.environ.get("RIG_TEST_IMAGE") or "trainrig/deepspeed:dev")
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    told: dict[str, Any] = {"boot_ms": boots(wanted.rounds)}
    for name in MACHINES:
        off, on = (told["boot_ms"][f"{name}, {checks}"] for checks in ("off", "report"))
        print(f"boot, {name:15} {on:7.1f} ms with checks, {off:7.1f} ms without: {on / off:.2f} x, {on - off:+.1f} ms")
    if wanted.looks:
        try:
            told["level_s"] = levels(find_engine(may_install=False), wanted.image, wanted.looks)
        except Refused as refused:
            print(f"levels: not measured: {refused}")
            return 1
        for level, took in told["level_s"].items():
            shown = ", ".join(f"{seconds:.2f}" for seconds in took)
            print(f"rig check --level {level:6} {statistics.median(took):6.2f} s (goal {LEVELS[level]:g}; {shown})")
    if wanted.json:
        wanted.json.write_text(json.dumps(told, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

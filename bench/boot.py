"""What the boot costs: `rig boot -- /bin/true` against a bare interpreter, the image against its entrypoint bypassed.

    bench/boot.py [--rounds 40] [--containers 10] [--json FILE]

All commands of a group take turns in one run, so that a busy machine slows all of them; medians are compared. The rooms
are copied and packed first, as the image has them. Machines on paper are laid out as folders, so that detection reads
files as it does on a real one; without the driver's child, which no paper machine can answer.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP))

from rig.captured import Captured, Tree  # noqa: E402

MACHINES = ("nothing", "hgx-h100-ib")
BARE = ["/usr/bin/python3", "-I", "-S", "-c", "pass"]
GOAL = 3.0  # times a bare interpreter


def installed(folder: Path) -> Path:
    """A copy of what an image has in /opt/rig, with its bytecode in one file; the path of the command."""
    for room in ("rig", "checks", "entrypoint"):
        shutil.copytree(TOP / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    pack = TOP / "factory" / "in-image" / "pack.py"
    subprocess.run([BARE[0], "-I", "-X", "no_debug_ranges", pack, folder], check=True)
    return folder / "entrypoint" / "rig"


def lay_out(tree: Tree, folder: Path) -> None:
    """A captured machine as real files and links below `folder`."""
    for path in tree.children:
        (folder / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for path, text in tree.texts.items():
        (folder / path.lstrip("/")).write_text(text)
    for path, data in tree.blobs.items():
        (folder / path.lstrip("/")).write_bytes(data)
    for path, opens in tree.opens.items():
        if opens:
            (folder / path.lstrip("/")).touch()
    for path, names in tree.children.items():
        for name in names:
            if not os.path.lexists(folder / f"{path}/{name}".lstrip("/")) and f"{path}/{name}" not in tree.links:
                (folder / f"{path}/{name}".lstrip("/")).touch()
    for path, target in tree.links.items():
        (folder / path.lstrip("/")).symlink_to(f"{folder}{target}" if target.startswith("/") else target)


def alternating(
    commands: Mapping[str, Callable[[], None]], rounds: int, before: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """Median wall time in milliseconds of each command, all in turns; the first round only warms up. `before` runs
    before each command and is not timed."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds + 1):
        for name, run in commands.items():
            before()
            start = time.perf_counter()
            run()
            taken[name].append((time.perf_counter() - start) * 1000)
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def states_of(folder: Path) -> Callable[[], None]:
    """Removes what earlier boots wrote below `folder`: a container's first boot finds none of its files, and to replace
    a file costs a journalling file system more than to make one."""

    def remove() -> None:
        for state in folder.glob("state-*"):
            shutil.rmtree(state)

    return remove


def command(words: list[str], environ: Mapping[str, str]) -> Callable[[], None]:
    def run() -> None:
        subprocess.run(words, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

    return run


def on_host(rounds: int) -> dict[str, float]:
    """Medians of a bare interpreter and of a boot on each machine, in milliseconds."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        rig = str(installed(folder / "opt"))
        environ = {"PATH": os.defpath, "HOME": str(folder), "USER": "bench", "LOGNAME": "bench"}
        commands = {"bare": command(BARE, environ)}
        for name in MACHINES:
            lay_out(Captured(str(TOP / "tests" / "machines" / name / "tree.txt")).tree, folder / name)
            told = {**environ, "RIG_ROOT": str(folder / name), "RIG_STATE": str(folder / f"state-{name}")}
            commands[name] = command([rig, "boot", "--", "/bin/true"], told)
        return alternating(commands, rounds, states_of(folder))


def in_containers(rounds: int, image: str) -> dict[str, float] | None:
    """Medians of `docker run IMAGE /bin/true` with and without the entrypoint; None: no engine or no image."""
    from factory.engine import find_engine
    from factory.say import Refused

    try:
        engine = find_engine(may_install=False)
    except Refused:
        return None
    if engine.call("image", "inspect", image).returncode != 0:
        return None
    run, environ = [engine.client, "run", "--rm"], engine.environment()
    commands = {
        "bypassed": command([*run, "--entrypoint", "/bin/true", image], environ),
        "booted": command([*run, image, "/bin/true"], environ),
    }
    return alternating(commands, rounds)


def main() -> int:
    parser = argparse.ArgumentParser(description="What the boot costs")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--containers", type=int, default=10, help="rounds with the image; 0: none")
    parser.add_argument("--image", default=os.environ.get("RIG_TEST_IMAGE") or "trainrig/deepspeed:dev")
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    told: dict[str, Any] = {"host_ms": on_host(wanted.rounds)}
    bare = told["host_ms"]["bare"]
    print(f"bare interpreter      {bare:7.1f} ms")
    for name in MACHINES:
        took = told["host_ms"][name]
        print(f"boot, {name:15} {took:7.1f} ms   {took / bare:.2f} x bare (goal {GOAL:g}), {took - bare:+.1f} ms")
    if wanted.containers:
        told["container_ms"] = found = in_containers(wanted.containers, wanted.image)
        if found is None:
            print(f"containers            not measured: no engine, or no image {wanted.image}")
        else:
            difference = found["booted"] - found["bypassed"]
            print(f"container, bypassed   {found['bypassed']:7.1f} ms")
            print(f"container, booted     {found['booted']:7.1f} ms   {difference:+.1f} ms")
    if wanted.json:
        wanted.json.write_text(json.dumps(told, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""requirements/<name>.in -> <name>.txt: every file of every package with its hashes, versions from pins.toml."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from factory.say import Refused, say
from rig.pins import Pins

PLATFORM = "x86_64-manylinux_2_28"


class Lock(NamedTuple):
    """One lock. `pinned` are packages whose version is a pin; `within` names a lock whose versions it must keep."""

    name: str
    pinned: tuple[tuple[str, str], ...] = ()
    within: str | None = None
    options: tuple[str, ...] = ()


TORCH = (("torch", "TORCH_VERSION"),)
DEEPSPEED = (("deepspeed", "DEEPSPEED_VERSION"),)
LOCKS = (
    Lock("build", (("uv", "UV_VERSION"),), options=("--python-platform", PLATFORM)),
    Lock("rig", options=("--python-platform", PLATFORM)),
    Lock("host", options=("--universal",)),
    Lock("torch", TORCH, options=("--python-platform", PLATFORM)),
    Lock("cuda", within="torch", options=("--python-platform", PLATFORM, "--no-deps")),
    # DeepSpeed comes as source and is patched before it is built, so it has a lock of its own: one sdist.
    Lock("deepspeed", TORCH + DEEPSPEED, "torch", ("--python-platform", PLATFORM, "--no-emit-package", "deepspeed")),
    Lock(
        "deepspeed-source", DEEPSPEED, options=("--python-platform", PLATFORM, "--no-deps", "--no-binary", "deepspeed")
    ),
)


def lock_all(checkout: Path, pins: Pins) -> None:
    """Write requirements/*.txt anew; each is replaced at once or not at all. Refused with uv's own words."""
    folder = checkout / "requirements"
    for lock in LOCKS:
        say(f"locking requirements/{lock.name}.txt")
        text = HEADER.format(name=lock.name) + _compile(folder, lock, pins)
        part = folder / f".{lock.name}.txt.part"
        part.write_text(text, encoding="utf-8")
        part.replace(folder / f"{lock.name}.txt")


HEADER = "# Made by `make lock` from requirements/{name}.in, overrides.txt and pins.toml; do not edit.\n"


def render_overrides(text: str, pins: Pins) -> str:
    """overrides.txt with each @PIN@ replaced by its value."""
    for table in pins.args.values():
        for key, value in table.items():
            text = text.replace(f"@{key}@", value)
    return text


def _compile(folder: Path, lock: Lock, pins: Pins) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        overrides = Path(scratch, "overrides.txt")
        overrides.write_text(render_overrides((folder / "overrides.txt").read_text(encoding="utf-8"), pins), "utf-8")
        constraints = Path(scratch, "constraints.txt")
        constraints.write_text("".join(f"{name}=={pins.of(pin)}\n" for name, pin in lock.pinned), encoding="utf-8")
        command = ["uv", "pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--no-emit-index-url"]
        command += ["--no-annotate", "--python-version", pins.of("PYTHON_VERSION"), *lock.options]
        command += ["--override", str(overrides), "--constraint", str(constraints)]
        if lock.within:
            command += ["--constraint", str(folder / f"{lock.within}.txt")]
        source = folder / f"{lock.name}.in"
        done = subprocess.run(
            [*command, str(source)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "UV_NO_CONFIG": "1"},
        )
    if done.returncode:
        raise Refused(f"requirements/{source.name} cannot be locked: {' '.join(done.stderr.split())[:400]}")
    return done.stdout

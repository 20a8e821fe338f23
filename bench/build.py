"""Our build against a plain Dockerfile, side by side in one run: `make bench-build`.

The plain one stands on the same base image and says `pip install torch deepspeed` without a lock, as people do today.
Both are built cold: the builder's caches are emptied before each; the base image stays, it is common to both. Then ours
again: unchanged, and with one line of the entrypoint changed. Prints a table with the goals; exit status 1 when one is
missed. It empties the engine's whole build cache, that of other projects too.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from factory.build import FINISHED, TARGETS, image_gb
from factory.engine import Engine, find_engine
from factory.network import ca_bundle
from factory.rootfs import find_base
from rig.pins import read_pins

CHECKOUT = Path(__file__).resolve().parent.parent
PLAIN_TAG = "trainrig/bench-plain:dev"
OWN_TAGS = (FINISHED, *(target.tag for target in TARGETS if target.tag))
PLAIN = """FROM {base}
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv ca-certificates
RUN --mount=type=secret,id=ca \\
    if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi; \\
    python3 -m venv /opt/venv && /opt/venv/bin/pip install --no-cache-dir torch=={torch} deepspeed=={deepspeed}
"""


def seconds(work: Callable[[], None]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def ours(checkout: Path) -> None:
    subprocess.run([sys.executable, "-m", "factory", "image"], cwd=checkout, check=True)


def plain(engine: Engine, base: str) -> None:
    pins = read_pins(CHECKOUT / "pins.toml")
    text = PLAIN.format(base=base, torch=pins.of("TORCH_VERSION"), deepspeed=pins.of("DEEPSPEED_VERSION"))
    bundle = ca_bundle(os.environ)
    secret = ["--secret", f"id=ca,src={bundle}"] if bundle else []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Dockerfile").write_text(text, encoding="utf-8")
        command = engine.build_command("--tag", PLAIN_TAG, *secret, folder)
        subprocess.run(command, env=engine.environment(), check=True, stderr=subprocess.DEVNULL)


def forget(engine: Engine, *tags: str) -> None:
    """Remove images and everything the builder remembers: wheels, packages, layers."""
    for tag in tags:
        engine.call("rmi", "--force", tag)
    engine.call("builder", "prune", "--all", "--force", timeout_s=600)


def layers(engine: Engine) -> list[str]:
    told = engine.call("image", "inspect", "--format", '{{join .RootFS.Layers " "}}', FINISHED)
    return told.stdout.split()


def layer_bytes(engine: Engine) -> list[int]:
    """Sizes of the steps that made a layer, newest first."""
    told = engine.call("history", "--no-trunc", "--human=false", "--format", "{{.Size}}", FINISHED).stdout
    return [size for word in told.split() if (size := int(word))]


def clone(folder: str, extra: str = "") -> Path:
    """The committed checkout, with one more line in the entrypoint where `extra` is not empty."""
    copy = Path(folder, "checkout")
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(CHECKOUT), str(copy)], check=True)
    if extra:
        with (copy / "entrypoint" / "boot.py").open("a", encoding="utf-8") as file:
            file.write(extra)
    return copy


class Measured(NamedTuple):
    """Seconds and GB of both builds; bytes of the layers that a changed line replaced; whether they are the last."""

    plain_s: float
    plain_gb: float
    cold_s: float
    size_gb: float
    unchanged_s: float
    touched_s: float
    layers: int
    changed_bytes: list[int]
    only_the_last: bool


def measure(engine: Engine, base: str) -> Measured:
    forget(engine, PLAIN_TAG, *OWN_TAGS)
    plain_s = seconds(lambda: plain(engine, base))
    plain_gb = image_gb(engine, PLAIN_TAG)
    forget(engine, PLAIN_TAG)
    with tempfile.TemporaryDirectory() as folder:
        clean = clone(folder)
        cold_s = seconds(lambda: ours(clean))
        unchanged_s = seconds(lambda: ours(clean))
    size_gb, before = image_gb(engine, FINISHED), layers(engine)
    with tempfile.TemporaryDirectory() as folder:
        touched = clone(folder, f"# {time.time_ns()}\n")
        touched_s = seconds(lambda: ours(touched))
    after = layers(engine)
    changed = [index for index, layer in enumerate(after) if layer not in before]
    return Measured(
        plain_s,
        plain_gb,
        cold_s,
        size_gb,
        unchanged_s,
        touched_s,
        len(after),
        layer_bytes(engine)[: len(changed)],
        changed == [len(after) - 1],
    )


def rows(now: Measured, budget_gb: float) -> Iterator[tuple[str, str, str, bool]]:
    """What was measured, against its goal."""
    limit = min(budget_gb, now.plain_gb + 0.5)
    changed = now.changed_bytes
    yield "plain, cold", f"{now.plain_s:.0f} s, {now.plain_gb:.2f} GB", "", True
    ratio = now.cold_s / now.plain_s
    yield "ours, cold", f"{now.cold_s:.0f} s = {ratio:.2f}x plain", "<= 0.75x", ratio <= 0.75
    yield "size", f"{now.size_gb:.2f} GB", f"<= {budget_gb:g}, <= plain + 0.5", now.size_gb <= limit
    yield "unchanged", f"{now.unchanged_s:.1f} s", "<= 3 s", now.unchanged_s <= 3
    yield "entrypoint changed", f"{now.touched_s:.1f} s", "<= 10 s", now.touched_s <= 10
    small = len(changed) <= 2 and all(size <= 2e6 for size in changed)
    what = f"{len(changed)} of {now.layers}, {sum(changed) / 1e6:.2f} MB"
    yield "layers changed by it", what, "<= 2, each <= 2 MB", small
    yield "layers below it", "same digests" if now.only_the_last else "differ", "same", now.only_the_last


def main() -> int:
    engine = find_engine()
    pins = read_pins(CHECKOUT / "pins.toml")
    base = find_base(engine, os.environ.get("BASE_IMAGE") or pins.of("BASE_IMAGE"), pins.of("OS_CODENAME"))
    now = measure(engine, base.reference)
    ours(CHECKOUT)
    table = list(rows(now, pins.budget["IMAGE_GB"]))
    print("| what | measured | goal | met |\n|---|---|---|---|")
    for what, measured, goal, met in table:
        print(f"| {what} | {measured} | {goal} | {'yes' if met else 'NO'} |")
    return 0 if all(met for *_, met in table) else 1


if __name__ == "__main__":
    sys.exit(main())

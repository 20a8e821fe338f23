"""Our build against a plain Dockerfile, side by side in one run: `make bench-build`.

The plain one stands on the same base image and says `pip install torch deepspeed` without a lock, as people do today.
Both are built cold: the builder's caches are emptied before each; the base image stays, it is common to both. Then ours
again: unchanged, and with one line of the entrypoint changed. Prints a table with the goals; exit status 1 when one is
missed.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from factory.build import FINISHED, ca_bundle
from factory.engine import Engine, find_engine
from factory.rootfs import find_base
from rig.pins import read_pins

CHECKOUT = Path(__file__).resolve().parent.parent
PLAIN_TAG = "trainrig/bench-plain:dev"
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


def inspect(engine: Engine, tag: str, what: str) -> str:
    return engine.call("image", "inspect", "--format", what, tag).stdout.strip()


def layers(engine: Engine) -> list[str]:
    return inspect(engine, FINISHED, '{{join .RootFS.Layers " "}}').split()


def layer_bytes(engine: Engine) -> list[int]:
    """Sizes of the steps that made a layer, newest first."""
    told = engine.call("history", "--no-trunc", "--human=false", "--format", "{{.Size}}", FINISHED).stdout
    return [int(size) for size in told.split()]


def touched_copy(folder: str) -> Path:
    """The tracked checkout with one more line in the entrypoint."""
    copy = Path(folder, "checkout")
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(CHECKOUT), str(copy)], check=True)
    with (copy / "entrypoint" / "boot.py").open("a", encoding="utf-8") as file:
        file.write(f"# {time.time_ns()}\n")
    return copy


def main() -> int:
    engine = find_engine()
    pins = read_pins(CHECKOUT / "pins.toml")
    base = find_base(engine, os.environ.get("BASE_IMAGE") or pins.of("BASE_IMAGE"), pins.of("OS_CODENAME"))
    own = ("trainrig/deepspeed:dev", "trainrig/cuda:dev", "trainrig/base:dev", "trainrig/rig:dev", "trainrig/os:dev")

    forget(engine, PLAIN_TAG, *own, "trainrig/build-tools:dev")
    plain_s = seconds(lambda: plain(engine, base.reference))
    plain_gb = int(inspect(engine, PLAIN_TAG, "{{.Size}}")) / 1e9
    forget(engine, PLAIN_TAG)
    with tempfile.TemporaryDirectory() as folder:
        clean = Path(folder, "clean")
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(CHECKOUT), str(clean)], check=True)
        cold_s = seconds(lambda: ours(clean))
        size_gb = int(inspect(engine, FINISHED, "{{.Size}}")) / 1e9
        unchanged_s = seconds(lambda: ours(clean))
    before = layers(engine)
    with tempfile.TemporaryDirectory() as folder:
        copy = touched_copy(folder)
        touched_s = seconds(lambda: ours(copy))
    after = layers(engine)
    changed = [index for index, layer in enumerate(after) if layer not in before]
    sizes = [size for size in reversed(layer_bytes(engine)) if size][-len(changed) :] if changed else []
    ours(CHECKOUT)

    rows = [
        ("plain, cold", f"{plain_s:.0f} s, {plain_gb:.2f} GB", "", True),
        ("ours, cold", f"{cold_s:.0f} s = {cold_s / plain_s:.2f}x plain", "<= 0.75x", cold_s <= 0.75 * plain_s),
        (
            "size",
            f"{size_gb:.2f} GB",
            f"<= 5.6 and <= plain + 0.5 = {plain_gb + 0.5:.2f}",
            size_gb <= min(5.6, plain_gb + 0.5),
        ),
        ("unchanged", f"{unchanged_s:.1f} s", "<= 3 s", unchanged_s <= 3),
        ("entrypoint changed", f"{touched_s:.1f} s", "<= 10 s", touched_s <= 10),
        (
            "layers changed by it",
            f"{len(changed)} of {len(after)}, {sum(sizes) / 1e6:.2f} MB",
            "<= 2, each <= 2 MB",
            len(changed) <= 2 and all(size <= 2e6 for size in sizes),
        ),
        (
            "layers below it",
            "same digests" if changed == [len(after) - 1] else "differ",
            "same",
            changed == [len(after) - 1],
        ),
    ]
    print("| what | measured | goal | met |\n|---|---|---|---|")
    for what, measured, goal, met in rows:
        print(f"| {what} | {measured} | {goal} | {'yes' if met else 'NO'} |")
    return 0 if all(met for *_, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

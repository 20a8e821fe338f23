"""The image graph, built with what runs side by side built side by side.

tools --+--> cuda-cache, cache (wheels) --+--> cuda, verified
        +--> rig --> base                 +--> deepspeed
os -----+---------------------------------+
"""

import json
import os
import subprocess
import threading
import time
import tomllib
from collections.abc import Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

from factory.engine import Engine
from factory.network import PROXIES, secrets
from factory.rootfs import Base, find_base
from factory.say import Refused, say
from rig.pins import Pins

ORIGIN = "io.trainrig.base-origin"  # a label that every image of ours carries
TAIL_LINES = 30


class Target(NamedTuple):
    """One `docker build`: `table` names the Dockerfile and its pins; `after` the targets whose results it uses; `needs`
    the ARGs that name other targets' images. Without a tag it yields files in build/<name>/."""

    name: str
    table: str
    tag: str | None
    after: tuple[str, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()


def _images(os_image: str, rig_image: str) -> tuple[tuple[str, str], ...]:
    return (("OS_IMAGE", os_image), ("RIG_IMAGE", rig_image), ("TOOLS_IMAGE", "trainrig/build-tools:dev"))


# A target that does not reach the stages of `os` and `rig` must not wait for them: any image that exists will do there.
ANY = "trainrig/build-tools:dev"
UNVERIFIED = "trainrig/deepspeed:unverified"
FINISHED = "trainrig/deepspeed:dev"
TARGETS = (
    Target("tools", "base", "trainrig/build-tools:dev"),
    Target("os", "base", "trainrig/os:dev"),
    Target("rig", "base", "trainrig/rig:dev", ("tools", "os")),
    Target("base", "base", "trainrig/base:dev", ("rig",)),
    Target("cuda-cache", "deepspeed", None, ("tools",), _images(ANY, ANY)),
    Target("cache", "deepspeed", None, ("tools",), _images(ANY, ANY)),
    # Exported while torch is still being fetched.
    Target("cuda", "deepspeed", "trainrig/cuda:dev", ("os", "cuda-cache"), _images("trainrig/os:dev", ANY)),
    Target("verified", "deepspeed", None, ("os", "cache"), _images("trainrig/os:dev", ANY)),
    Target("deepspeed", "deepspeed", UNVERIFIED, ("rig", "cache"), _images("trainrig/os:dev", "trainrig/rig:dev")),
)


def build_all(engine: Engine, checkout: Path, pins: Pins, environ: Mapping[str, str]) -> None:
    """Build every image from the checkout; nothing is tagged that did not pass its own read-back.

    Refused, with the end of the builder's log, when a step fails. What was built before an interruption stays built.
    """
    started = time.monotonic()
    say(f"engine {engine.version}, client {engine.client}, builder {engine.builder}")
    require_used_pins(checkout, pins)
    require_space(engine, pins.budget["DISK_GB"])
    base = find_base(engine, environ.get("BASE_IMAGE") or pins.of("BASE_IMAGE"), pins.of("OS_CODENAME"))
    context = Context(engine, checkout, pins, base, environ, Commit.of(checkout), project_version(checkout), Running())
    (checkout / "build").mkdir(exist_ok=True)
    build_graph(context, TARGETS)
    if (size_gb := image_gb(engine, UNVERIFIED)) > pins.budget["IMAGE_GB"]:
        raise Refused(f"{UNVERIFIED} has {size_gb:.2f} GB, more than pins.toml allows: IMAGE_GB", 1)
    if (tagged := engine.call("tag", UNVERIFIED, FINISHED)).returncode:
        raise Refused(f"{FINISHED} could not be tagged: {tagged.stderr.strip()}", 1)
    engine.call("rmi", UNVERIFIED)
    # The builds that these tags named before.
    engine.call("image", "prune", "--force", "--filter", f"label={ORIGIN}", timeout_s=600)
    record = {"base": base._asdict(), "revision": context.commit.revision}
    (checkout / "build" / "images.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    say(f"{FINISHED}: {image_gb(engine, FINISHED):.2f} GB, {time.monotonic() - started:.1f} s")


def image_gb(engine: Engine, tag: str) -> float:
    """All layers of an image unpacked, in GB of 1e9 bytes."""
    return int(engine.call("image", "inspect", "--format", "{{.Size}}", tag).stdout.strip() or 0) / 1e9


def build_graph(context: "Context", targets: tuple[Target, ...]) -> None:
    """Every target as soon as what it uses is there. The first failure is raised; after it, and after an interruption,
    nothing new starts and the builders that run are ended."""
    built: dict[str, Future[None]] = {}
    with ThreadPoolExecutor(len(targets)) as pool:
        try:
            for target in targets:  # in order: a target's predecessors have their futures by then
                before = [built[name] for name in target.after]
                built[target.name] = pool.submit(_build_after, context, target, before)
            done, _ = wait(built.values(), return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        finally:
            context.running.stop()


def _build_after(context: "Context", target: Target, before: list[Future[None]]) -> None:
    for future in before:
        future.result()
    build(context, target)


class Running:
    """The builders that run. After stop() none can be added."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.children: set[subprocess.Popen[str]] = set()
        self.stopped = False

    def start(self, command: list[str], checkout: Path, environment: dict[str, str]) -> "subprocess.Popen[str]":
        """A builder with its output in a pipe; Refused after stop()."""
        with self.lock:
            if self.stopped:
                raise Refused("not started: another part of the build failed", 1)
            child = subprocess.Popen(
                command,
                cwd=checkout,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            self.children.add(child)
            return child

    def stop(self) -> None:
        with self.lock:
            self.stopped = True
            for child in self.children:
                if child.poll() is None:
                    child.terminate()


def require_used_pins(checkout: Path, pins: Pins) -> None:
    """Refused when a pin is no ARG of its Dockerfile: a version that feeds nothing only looks like one."""
    for table, keys in pins.args.items():
        path = checkout / f"Dockerfile.{table}"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for key in keys:
            if f"ARG {key}\n" not in text:
                raise Refused(f"pins.toml: [{table}] {key} is used by nothing: {path.name} has no ARG {key}", 78)


class Commit(NamedTuple):
    """What the images say they were made from. `created` is the commit's time: equal inputs give equal labels."""

    revision: str
    created: str

    @classmethod
    def of(cls, checkout: Path) -> "Commit":
        def git(*args: str) -> str:
            done = subprocess.run(["git", *args], cwd=checkout, capture_output=True, text=True, check=False)
            return done.stdout.strip() if done.returncode == 0 else ""

        dirty = "-dirty" if git("status", "--porcelain") else ""
        revision = git("rev-parse", "HEAD")
        return cls(
            revision + dirty if revision else "unknown", git("log", "-1", "--format=%cI") or "1970-01-01T00:00:00Z"
        )


def project_version(checkout: Path) -> str:
    """trainrig's own version, from pyproject.toml."""
    return str(tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


class Context(NamedTuple):
    """What all builds of one run share."""

    engine: Engine
    checkout: Path
    pins: Pins
    base: Base
    environ: Mapping[str, str]
    commit: Commit
    version: str
    running: Running


def build(context: Context, target: Target) -> None:
    """One target. Its whole log goes to build/<target>.log, its steps to the terminal."""
    with secrets(context.environ, context.checkout / "build") as options:
        command = build_command(context, target, options)
        log = context.checkout / "build" / f"{target.name}.log"
        status = _run(context, command, target.name, log)
    if status:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:])
        raise Refused(f"building {target.name} failed with {status}; the end of {log}:\n{tail}", 1)


def build_command(context: Context, target: Target, secret_options: list[str]) -> list[str]:
    """The docker command line of a target: its pins as build arguments, its labels, its secrets."""
    arguments = {**context.pins.args[target.table], **dict(target.needs)}
    if target.table == "base":
        arguments["BASE_IMAGE"] = context.base.reference
    labels = {
        "org.opencontainers.image.version": context.version,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.vendor": "trainrig",
        "org.opencontainers.image.revision": context.commit.revision,
        "org.opencontainers.image.created": context.commit.created,
        "org.opencontainers.image.base.name": context.base.name,
        "org.opencontainers.image.base.digest": context.base.digest,
        ORIGIN: context.base.origin,
    }
    options = ["--file", f"Dockerfile.{target.table}", "--target", target.name]
    options += [word for key, value in sorted(arguments.items()) for word in ("--build-arg", f"{key}={value}")]
    options += [word for name in PROXIES if name in context.environ for word in ("--build-arg", name)]
    if target.tag is None:  # files, not an image: build/<target>/
        options += ["--output", f"type=local,dest=build/{target.name}"]
    else:
        options += ["--tag", target.tag]
        options += [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
    return context.engine.build_command(*options, *secret_options, ".")


def require_space(engine: Engine, need_gb: float) -> None:
    """Refused before anything starts when the engine's disk cannot hold a cold build and no image is there to reuse."""
    if engine.call("image", "inspect", FINISHED).returncode == 0:
        need_gb /= 4  # layers are there already
    root = engine.call("info", "--format", "{{.DockerRootDir}}").stdout.strip()
    if not os.path.isdir(root):
        return  # the engine is on another machine
    told = os.statvfs(root)
    free_gb = told.f_bavail * told.f_frsize / 1e9
    if free_gb < need_gb:
        raise Refused(
            f"disk too full to build: it needs {need_gb:.0f} GB at {root}, {free_gb:.0f} GB are free; "
            "free some (docker system prune, docker builder prune) or move the engine's data-root"
        )


def _run(context: Context, command: list[str], name: str, log: Path) -> int:
    """Run a builder; show a line for each step that really runs."""
    child = context.running.start(command, context.checkout, context.engine.environment())
    with log.open("w", encoding="utf-8") as file, child:
        assert child.stdout is not None
        steps: dict[str, str] = {}
        for line in child.stdout:
            file.write(line)
            number, _, rest = line.strip().partition(" ")
            if rest.startswith("[") and "] " in rest and "internal" not in rest:
                steps[number] = " ".join(rest.split())
            elif rest.startswith("DONE") and number in steps and rest.split()[1] not in ("0.0s", "0.1s"):
                say(f"{name}: {steps[number][:100]} ({rest.split()[1]})")
    return child.returncode

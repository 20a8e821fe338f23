"""What a build is asked to do, and what it refuses before it starts."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from factory import build, network
from factory.engine import Engine, find_engine
from factory.rootfs import Base
from factory.say import Refused
from rig.pins import Pins, read_pins

CHECKOUT = Path(__file__).resolve().parent.parent.parent
PINS = read_pins(CHECKOUT / "pins.toml")
ENGINE = Engine("/usr/bin/docker", "20.10", "buildkit")


def context(environ: dict[str, str], checkout: Path = CHECKOUT) -> build.Context:
    base = Base("trainrig/rootfs:x", "debian:y", "sha256:1", "bootstrapped")
    return build.Context(
        ENGINE, checkout, PINS, base, environ, build.Commit("abc", "2026-01-01T00:00:00+00:00"), "0.1", build.Running()
    )


def target(name: str) -> build.Target:
    return next(item for item in build.TARGETS if item.name == name)


def test_a_build_gets_every_pin_of_its_table_and_the_base_that_was_found() -> None:
    command = build.build_command(context({}), target("os"), [])
    for name, value in PINS.args["base"].items():
        expected = "trainrig/rootfs:x" if name == "BASE_IMAGE" else value
        assert f"{name}={expected}" in command
    assert "org.opencontainers.image.base.name=debian:y" in command
    assert "org.opencontainers.image.base.digest=sha256:1" in command


def test_proxies_are_passed_by_name_so_that_no_password_stands_on_a_command_line() -> None:
    command = build.build_command(context({"https_proxy": "http://user:secret@proxy"}), target("os"), [])
    assert "https_proxy" in command
    assert not [word for word in command if "secret" in word]


def test_every_predecessor_is_a_target_that_stands_before() -> None:
    seen: set[str] = set()
    for item in build.TARGETS:
        assert set(item.after) <= seen
        seen.add(item.name)


def test_mirrors_reach_uv_too_and_only_what_is_set() -> None:
    assert network.mirrors({}) == []
    assert network.mirrors({"PIP_INDEX_URL": "https://m/simple"}) == [
        "PIP_INDEX_URL=https://m/simple",
        "UV_DEFAULT_INDEX=https://m/simple",
    ]
    assert network.mirrors({"PIP_INDEX_URL": "a", "UV_DEFAULT_INDEX": "b"}) == ["PIP_INDEX_URL=a", "UV_DEFAULT_INDEX=b"]


def test_the_mirror_file_is_private_and_gone_after_the_build(tmp_path: Path) -> None:
    with network.secrets({"PIP_INDEX_URL": "a", "RIG_CA_BUNDLE": "none"}, tmp_path) as options:
        [path] = [Path(word.partition("src=")[2]) for word in options if "id=mirrors" in word]
        assert path.read_text(encoding="utf-8").splitlines()[0] == "PIP_INDEX_URL=a"
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_the_bundle_is_the_users_the_hosts_or_none(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("x", encoding="utf-8")
    assert network.ca_bundle({"RIG_CA_BUNDLE": str(bundle)}) == str(bundle)
    assert network.ca_bundle({"RIG_CA_BUNDLE": "none", "SSL_CERT_FILE": str(bundle)}) is None
    assert network.ca_bundle({"SSL_CERT_FILE": str(bundle)}) == str(bundle)
    with pytest.raises(Refused, match=r"RIG_CA_BUNDLE=/no/such: no such file"):
        network.ca_bundle({"RIG_CA_BUNDLE": "/no/such"})


def test_a_pin_that_feeds_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile.base").write_text("ARG USED\n", encoding="utf-8")
    build.require_used_pins(tmp_path, Pins({"base": {"USED": "1"}}, {}))
    with pytest.raises(Refused, match=r"\[base\] SPARE is used by nothing"):
        build.require_used_pins(tmp_path, Pins({"base": {"USED": "1", "SPARE": "2"}}, {}))


def test_a_failure_starts_nothing_new_and_ends_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    lock = threading.Lock()

    def one(_: object, item: build.Target) -> None:
        with lock:
            done.append(item.name)
        if item.name == "b":
            raise Refused("b is broken")
        if item.name == "slow":  # a builder that runs on while b fails
            child = context_used.running.start(["sleep", "60"], CHECKOUT, {"PATH": os.environ["PATH"]})
            assert child.wait(30) != 0
            with pytest.raises(Refused, match="not started"):
                context_used.running.start(["true"], CHECKOUT, {})

    monkeypatch.setattr(build, "build", one)
    graph = (
        build.Target("a", "t", None),
        build.Target("b", "t", None, ("a",)),
        build.Target("c", "t", None, ("b",)),
        build.Target("slow", "t", None, ()),
    )
    context_used = context({})
    with pytest.raises(Refused, match="b is broken"):
        build.build_graph(context_used, graph)
    assert set(done) == {"a", "b", "slow"}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout of one's own, to spoil."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (CHECKOUT / name).exists() and name.partition("/")[0] in ("factory", "rig", "pins.toml", "pyproject.toml"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, tmp_path / name)
    for path in CHECKOUT.glob("Dockerfile.*"):
        shutil.copy(path, tmp_path)
    return tmp_path


def factory(checkout: Path, *argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "factory", *argv],
        cwd=checkout,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.container
def test_a_disk_that_is_too_full_is_said_before_anything_starts(copy: Path) -> None:
    find_engine()
    text = (copy / "pins.toml").read_text(encoding="utf-8")
    before = f"DISK_GB        = {PINS.budget['DISK_GB']:.0f}"
    assert before in text
    (copy / "pins.toml").write_text(text.replace(before, "DISK_GB = 1000000"), encoding="utf-8")
    done = factory(copy, "image")
    assert done.returncode == 69
    assert "disk too full to build: it needs" in done.stderr.splitlines()[-1]
    assert not (copy / "build").exists()


def test_an_engine_that_does_not_answer_is_named() -> None:
    done = factory(CHECKOUT, "engine", DOCKER_HOST="unix:///nowhere/docker.sock")
    assert done.returncode == 69
    assert done.stderr.splitlines() == [
        "factory: no Docker engine answers at DOCKER_HOST=unix:///nowhere/docker.sock: start it or unset DOCKER_HOST"
    ]


@pytest.mark.parametrize(("text", "key"), [("[base\n", "pins.toml"), ("[base]\nUV_VERSION = 3\n", "UV_VERSION")])
def test_broken_pins_are_one_line(copy: Path, text: str, key: str) -> None:
    (copy / "pins.toml").write_text(text, encoding="utf-8")
    done = factory(copy, "lock")
    assert done.returncode == 78
    assert len(done.stderr.splitlines()) == 1 and key in done.stderr


def test_an_unknown_verb_is_usage() -> None:
    assert factory(CHECKOUT, "polish").returncode == 64


@pytest.mark.container
def test_an_interrupted_build_says_so_and_the_next_one_continues() -> None:
    find_engine()
    command = [sys.executable, "-m", "factory", "image"]
    with subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.PIPE, text=True) as first:
        assert first.stderr is not None
        for line in first.stderr:
            if "base image" in line:
                first.terminate()
                break
        rest = first.stderr.read()
    assert first.returncode == 130
    assert rest.splitlines()[-1] == "factory: interrupted; a second run continues where this one stopped"
    second = factory(CHECKOUT, "image")
    assert second.returncode == 0, second.stderr


@pytest.mark.container
def test_the_last_build_says_which_base_it_stands_on() -> None:
    record = json.loads((CHECKOUT / "build" / "images.json").read_text(encoding="utf-8"))
    assert record["base"]["origin"] in ("local", "pulled", "bootstrapped")
    assert record["base"]["digest"].startswith("sha256:")

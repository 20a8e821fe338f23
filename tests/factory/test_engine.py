"""Which client and builder are chosen. The clients are small programs that answer as the real ones do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from factory import engine
from factory.run import run_flags
from factory.say import Refused

CHECKOUT = Path(__file__).resolve().parent.parent.parent

OLD = 'case "$*" in *Server.Version*) echo 20.10.24;; *Client.Version*) echo 20.10.24;; *) exit 1;; esac'
NEW_WITHOUT_BUILDX = 'case "$*" in *Server.Version*) echo 20.10.24;; *Client.Version*) echo 28.2.2;; *) exit 1;; esac'
WITH_BUILDX = (
    'case "$*" in *Server.Version*) echo 27.1;; "buildx version") echo "github.com/docker/buildx v0.16";; esac'
)
NO_SERVER = 'case "$*" in *Client.Version*) echo 20.10.24;; *) exit 1;; esac'


def client(folder: Path, name: str, answers: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{answers}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("answers", "builder"),
    [(OLD, "buildkit"), (NEW_WITHOUT_BUILDX, None), (WITH_BUILDX, "buildx")],
)
def test_the_builder_of_a_client(tmp_path: Path, answers: str, builder: str | None) -> None:
    assert engine._builder(client(tmp_path, "docker", answers)) == builder


def test_a_client_that_cannot_build_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = client(tmp_path, "first", NEW_WITHOUT_BUILDX), client(tmp_path, "second", OLD)
    monkeypatch.setattr(engine, "_clients", lambda: [first, second])
    assert engine.find_engine() == engine.Engine(second, "20.10.24", "buildkit")


def test_without_root_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(engine, "_clients", lambda: [client(tmp_path, "docker", NO_SERVER)])
    with pytest.raises(Refused, match=r"install Docker 20\.10 or later") as refused:
        engine.find_engine(may_install=False)
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_without_an_engine_is_told(tmp_path: Path) -> None:
    """The real program as a user who may not speak to the engine; on its own copy, which that user can read."""
    for name in ("factory", "rig", "pins.toml"):
        source, target = CHECKOUT / name, tmp_path / name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-m", "factory", "engine"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 69
    [line] = done.stderr.splitlines()
    assert line.startswith("factory: no Docker engine with BuildKit found: install Docker 20.10 or later")


def test_a_dead_engines_pid_file_does_not_stop_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = tmp_path / "docker.pid"
    dead.write_text(str(os.getpid()), encoding="ascii")  # alive, but no dockerd
    monkeypatch.setattr(engine, "PID_FILES", (dead, tmp_path / "missing.pid"))
    engine._forget_dead_engine()
    assert not dead.exists()


def test_both_builders_are_asked_for_the_same_thing() -> None:
    assert engine.Engine("d", "1", "buildx").build_command("x") == ["d", "buildx", "build", "--load", "x"]
    assert engine.Engine("d", "1", "buildkit").build_command("x") == ["d", "build", "x"]
    assert engine.Engine("d", "1", "buildkit").environment()["DOCKER_BUILDKIT"] == "1"


def test_run_flags_follow_the_devices() -> None:
    assert run_flags(lambda _: False) == ["--ipc=host"]
    everything = run_flags(lambda _: True)
    assert everything[1:5] == ["--ulimit", "memlock=-1", "--ulimit", "stack=67108864"]
    assert everything[-6:] == ["--gpus", "all", "--device", "/dev/infiniband", "--network", "host"]

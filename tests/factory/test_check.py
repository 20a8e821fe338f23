"""`make check`: one container with the right flags, pytest's exit code, and the container is gone whatever happened."""

import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest

from factory import __main__ as front
from factory import check
from factory.engine import Engine
from factory.say import Refused


def engine(folder: Path, answers: str = "") -> Engine:
    """A client that writes down the first words of its calls and answers with a shell's words."""
    client = folder / "docker"
    client.write_text(f'#!/bin/sh\necho "$*" | head -n 1 >>"{folder}/calls"\n{answers}\n')
    client.chmod(0o755)
    return Engine(str(client), "20.10", "buildkit")


def calls(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "calls").read_text().splitlines()]


def test_a_container_is_started_judged_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "run_flags", lambda exists: ["--ipc=host", "--gpus", "all"])
    no_rig = 'case "$1" in exec) echo "no command rig" >&2; exit 127;; esac'
    code = check.check_image(engine(tmp_path, no_rig), "made:dev", ["-q", "--level", "boot", "-p", "no:cacheprovider"])
    assert code == 1  # pytest's own: the host could not be judged
    run, *looks, removed = calls(tmp_path)
    name = run[run.index("--name") + 1]
    flags = ["--ipc=host", "--gpus", "all", *check.KERNEL_LOG]
    assert run == ["run", "--detach", "--name", name, *flags, "made:dev", *check.IDLE]
    assert looks and all(words[:2] == ["exec", name] for words in looks)
    assert removed == ["rm", "--force", "--volumes", name]


def test_the_container_goes_when_the_judging_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = engine(tmp_path)
    monkeypatch.setattr(check, "environment", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        check.check_image(client, None, [])
    assert [words[0] for words in calls(tmp_path)] == ["run", "rm"]


def _interrupted(_: Any) -> NoReturn:
    raise KeyboardInterrupt


def test_an_image_that_does_not_start_is_one_line(tmp_path: Path) -> None:
    lines = 'docker: Error response from daemon: exec: "tini": not found in $PATH.\nSee docker run --help.'
    client = engine(tmp_path, f"case $1 in run) echo '{lines}' >&2; exit 127;; esac")
    with pytest.raises(Refused, match=r'^made:dev cannot be started: docker: Error .*"tini": not found') as refused:
        check.check_image(client, "made:dev", [])
    assert refused.value.code == 1
    assert [words[0] for words in calls(tmp_path)] == ["run", "rm"]


@pytest.mark.parametrize(
    ("words", "image", "options"),
    [
        ([], None, []),
        (["--", "--level", "full"], None, ["--level", "full"]),
        (["made:dev", "--", "-k", "nccl"], "made:dev", ["-k", "nccl"]),
    ],
)
def test_the_words_after_the_dashes_are_pytest_s(
    monkeypatch: pytest.MonkeyPatch, words: list[str], image: str | None, options: list[str]
) -> None:
    told: list[Any] = []
    monkeypatch.setattr("factory.engine.find_engine", lambda: "engine")
    monkeypatch.setattr(check, "check_image", lambda *words: told.extend(words) or 5)
    with pytest.raises(SystemExit) as ended:
        front.main(["check", *words])
    assert (ended.value.code, told) == (5, ["engine", image, options])


@pytest.mark.parametrize(
    "image", ["made:dev", "x;touch F", "a b", "$$(touch F)", "`touch F`", "'; touch F; '", '"', ""]
)
def test_make_passes_image_and_options_on(tmp_path: Path, image: str) -> None:
    told = tmp_path / "told"
    told.write_text(f'#!/bin/sh\ncd "{tmp_path}"\nprintf "%s\\n" "$@" >words\n')
    told.chmod(0o755)
    made = ["-o", ".venv/.from-host-lock", "-o", "image"]  # as they stand: nothing is built here
    words = [f"IMAGE={image}", "CHECK_ARGS=--level full -k 'a or b'", f"PY={told}"]
    command = ["make", "-f", str(check.CHECKOUT / "Makefile"), *made, "check", *words]
    subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    given = [image.replace("$$", "$")] if image else []
    options = ["--level", "full", "-k", "a or b"]
    assert (tmp_path / "words").read_text().splitlines() == ["-m", "factory", "check", *given, "--", *options]
    assert not (tmp_path / "F").exists()

"""The linters are tests: one gate. They come with the host environment, so none is ever missing there."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


def tracked(*patterns: str) -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    return [name for name in done.stdout.split("\0") if name and (CHECKOUT / name).exists()]


def shell_files() -> list[str]:
    return [
        name
        for name in tracked()
        if name.endswith(".sh") or first_line(name).startswith(("#!/bin/sh", "#!/usr/bin/env bash", "#!/bin/bash"))
    ]


def first_line(name: str) -> str:
    with (CHECKOUT / name).open("rb") as file:
        return file.readline().decode("utf-8", "replace")


LINTERS = {
    "ruff-check": ["ruff", "check", "--quiet", "."],
    "ruff-format": ["ruff", "format", "--quiet", "--check", "."],
    "mypy": ["mypy", "--no-error-summary"],
    "hadolint": ["hadolint", *tracked("Dockerfile.*")],
    "shellcheck": ["shellcheck", *shell_files()],
    "yamllint": ["yamllint", "--strict", *tracked("*.yaml", "*.yml")],
}


@pytest.mark.parametrize("name", LINTERS)
def test_linter_is_content(name: str) -> None:
    program, *arguments = LINTERS[name]
    done = subprocess.run([BIN / program, *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_names_a_package_registry_or_a_path_of_one_machine() -> None:
    hosts = ["pypi" + ".org", "python" + "hosted", "deb." + "debian", "registry." + "npmjs", "security." + "debian"]
    hosts += ["/wo" + "rk/main", "/root/" + ".pyenv", str(CHECKOUT) + "/"]
    found = [
        f"{name}: {host}" for name in tracked() for host in hosts if host.encode() in (CHECKOUT / name).read_bytes()
    ]
    assert found == []

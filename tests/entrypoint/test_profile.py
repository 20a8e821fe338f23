"""A shell that did not come through the entrypoint gets the same environment from profile.d."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

PROFILE = Path(__file__).parents[2] / "entrypoint" / "profile.sh"
SHELLS = [path for name in ("dash", "bash") if (path := shutil.which(name))]


def environment(shell: str, before: str = "", **environ: str) -> dict[str, str]:
    script = f"{before}\n. {PROFILE}\nenv -0"
    done = subprocess.run(
        [shell, "-c", script], env={"PATH": "/usr/bin:/bin", **environ}, capture_output=True, check=True
    )
    assert done.stderr == b""
    return dict(part.split("=", 1) for part in done.stdout.decode().split("\0") if part)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_environment_of_the_plan_is_there(here: Any, shell: str) -> None:
    here.boot("true", NCCL_DEBUG="INFO")
    told = environment(shell, RIG_STATE=str(here.state))
    assert told["RIG_DS_CONFIG"] == f"{here.state}/ds_config.json"
    assert told["DS_ACCELERATOR"] == "cpu"
    assert told["NCCL_DEBUG"] == "INFO"
    assert told["PATH"] == "/opt/venv/bin:/usr/bin:/bin"


@pytest.mark.parametrize("shell", SHELLS)
def test_what_the_shell_has_stays(here: Any, shell: str) -> None:
    here.boot("true")
    told = environment(shell, RIG_STATE=str(here.state), DS_ACCELERATOR="cuda", PATH="/opt/venv/bin:/bin:/usr/bin")
    assert told["DS_ACCELERATOR"] == "cuda"
    assert told["PATH"] == "/opt/venv/bin:/bin:/usr/bin"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_strict_shell_is_not_ended(here: Any, shell: str) -> None:
    here.boot("true")
    assert "RIG_DS_CONFIG" in environment(shell, "set -eu", RIG_STATE=str(here.state))
    assert "RIG_DS_CONFIG" not in environment(shell, "set -eu", RIG_STATE="/nowhere", RIG_PLANNED="x")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_home_that_cannot_be_written_is_the_boot_s(here: Any, shell: str) -> None:
    here.boot("true", HOME="/")
    assert environment(shell, RIG_STATE=str(here.state), HOME="/")["HOME"] == f"{here.state}/home"
    kept = str(here.work)
    assert environment(shell, RIG_STATE=str(here.state), HOME=kept)["HOME"] == kept


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", ["RIG_STATE", "XDG_RUNTIME_DIR"])
def test_a_file_in_the_working_folder_is_not_run(here: Any, shell: str, name: str) -> None:
    (here.work / "rig").mkdir()
    for place in (here.work / "env", here.work / "rig" / "env"):
        place.write_text("export CAUGHT=1\n")
    assert "CAUGHT" not in environment(shell, f"cd {here.work}", **{name: "."})
    assert "CAUGHT" not in environment(shell, f"cd {here.work}", **{name: ""})


def test_without_a_place_that_was_named_no_file_of_the_root_folder_is_run() -> None:
    """`"$RIG_STATE/env"` of an unset variable would be /env."""
    (line,) = [line for line in PROFILE.read_text().splitlines() if "for rig_state in" in line]
    first = subprocess.run(
        ["sh", "-c", f"rig_uid=1; {line} echo $rig_state; break; done"], env={}, capture_output=True, text=True
    )
    assert first.stdout == "/nowhere\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("shell", SHELLS)
def test_a_file_of_another_user_is_not_run(here: Any, shell: str) -> None:
    here.boot("true")
    os.chown(here.state / "env", 4242, 4242)
    assert "RIG_DS_CONFIG" not in environment(shell, RIG_STATE=str(here.state))

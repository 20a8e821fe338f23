"""Whatever the user gets wrong: one line that names it, the right exit code, and nothing started."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.container

Mount = Callable[..., list[str]]
PRINTS = "import sys; print(*sys.argv[1:])"


def errors(done: Any) -> list[str]:
    return [line.removeprefix("rig: error: ") for line in done.lines if line.startswith("rig: error: ")]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["trian.py"], 127, "trian.py does not exist; there is train.py"),
        (["/data/none.py"], 127, "/data/none.py does not exist; there is train.py"),
        (["no-such-command"], 127, "no-such-command: command not found"),
        (["./none"], 127, "./none does not exist"),
        (["/workspace"], 126, "/workspace is a folder"),
        (["./folder.py"], 126, "./folder.py is a folder, not a script"),
        (["./notes.txt"], 126, "./notes.txt is not executable: chmod +x"),
        (["--epochs", "3"], 127, "--epochs is an option, not a command"),
        ([""], 127, "the command is empty"),
    ],
)
def test_a_command_that_cannot_start(docker: Any, workspace: Mount, words: list[str], code: int, says: str) -> None:
    options = [*workspace(train__py=PRINTS, notes__txt="x"), "--tmpfs", "/workspace/folder.py"]
    done = docker.run(*words, options=options)
    assert (done.code, done.out) == (code, "")
    assert len(errors(done)) == 1 and errors(done)[0].startswith(says), done.err


def test_a_script_that_may_not_be_read(docker: Any, workspace: Mount, tmp_path: Any) -> None:
    options = workspace(train__py=PRINTS)
    (tmp_path / "train.py").chmod(0)
    done = docker.run("train.py", options=[*options, "--user", "12345:0"])
    assert (done.code, errors(done)) == (126, ["train.py may not be read by this user"])


@pytest.mark.parametrize(
    ("setting", "allowed"),
    [
        ("RIG_CPU_RANKS=two", "a whole number from 1 to 1024"),
        ("RIG_CPU_RANKS=0", "a whole number from 1 to 1024"),
        ("RIG_CHECKS=maybe", "off, report or enforce"),
        ("RIG_QUIET=yes", "0 or 1"),
        ("RIG_GRACE=soon", "seconds from 0 to 86400"),
    ],
)
def test_a_setting_that_cannot_be(docker: Any, setting: str, allowed: str) -> None:
    done = docker.run("echo", "started", options=["--env", setting])
    assert (done.code, done.out, errors(done)) == (64, "", [f"{setting}: must be {allowed}"])


def test_a_state_folder_that_cannot_be(docker: Any) -> None:
    done = docker.run("echo", "started", options=["--env", "RIG_STATE=/etc/passwd/x"])
    assert (done.code, done.out, errors(done)) == (64, "", ["RIG_STATE=/etc/passwd/x: Not a directory"])


def test_a_script_that_may_be_executed_and_not_be_read(docker: Any, workspace: Mount, tmp_path: Any) -> None:
    options = workspace(train__py=PRINTS)
    (tmp_path / "train.py").chmod(0o711)
    done = docker.run("train.py", options=[*options, "--user", "12345:0"])
    assert (done.code, errors(done)) == (126, ["train.py may not be read by this user"])


def test_a_program_of_another_architecture(docker: Any, workspace: Mount, tmp_path: Any) -> None:
    options = workspace()
    (tmp_path / "other").write_bytes(b"\x7fELF\2\1\1" + bytes(9) + b"\2\0\xf7\0" + bytes(100))  # BPF
    (tmp_path / "other").chmod(0o755)
    done = docker.run("./other", options=options)
    assert done.code == 126
    assert len(errors(done)) == 1 and errors(done)[0].startswith("./other: not a program for this machine (")


def test_a_setting_that_does_not_exist(docker: Any) -> None:
    done = docker.run("echo", "started", options=["--env", "RIG_CPURANKS=4"])
    assert (done.code, done.out) == (0, "started\n")
    assert "rig: warning: RIG_CPURANKS is no setting of rig; RIG_CPU_RANKS is" in done.lines


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"zero_optimization": {"stage": 3}', "ds.json:1: "),
        ("[1, 2]", "ds.json:1: the config must be an object"),
        ('{\n"a": 1,\n"a": 2\n}', "ds.json:3: duplicate key 'a'"),
        ("[" * 100000, "ds.json: nested too deeply"),
        ("\0\1\2", "ds.json:1: "),
    ],
    ids=["open bracket", "a list", "twice", "deep", "binary"],
)
def test_a_config_that_is_none(docker: Any, workspace: Mount, text: str, says: str) -> None:
    options = workspace(train__py=PRINTS, ds__json=text)
    done = docker.run("train.py", "--deepspeed_config", "ds.json", options=options)
    assert (done.code, done.out) == (78, "")
    assert len(errors(done)) == 1 and errors(done)[0].startswith(says), done.err


def test_a_config_that_is_missing(docker: Any, workspace: Mount) -> None:
    done = docker.run("train.py", "--deepspeed_config=none.json", options=workspace(train__py=PRINTS))
    where = "(DeepSpeed config, looked for in /workspace)"
    assert (done.code, errors(done)) == (78, [f"none.json: No such file or directory {where}"])


@pytest.mark.parametrize("text", ["", "not json", '{"schema_version": 99}', "[" * 5000, "\0"])
def test_a_broken_platform_file_is_a_warning(docker: Any, tmp_path: Any, text: str) -> None:
    (tmp_path / "network_topology.json").write_text(text)
    done = docker.run("echo", "started", options=["--volume", f"{tmp_path}:/etc/rdma:ro"])
    assert (done.code, done.out) == (0, "started\n")
    warnings = [line for line in done.lines if line.startswith("rig: warning: ")]
    assert len(warnings) == 1 and "network_topology.json" in warnings[0]


def test_an_enforced_check_ends_the_boot_and_a_reported_one_does_not(docker: Any) -> None:
    broken = [word for name in ("NNODES=2", "NODE_RANK=5", "MASTER_ADDR=a") for word in ("--env", name)]
    assert docker.run("echo", "started", options=broken).out == "started\n"
    done = docker.run("echo", "started", options=[*broken, "--env", "RIG_CHECKS=enforce"])
    assert (done.code, done.out) == (78, "")


def test_a_script_that_is_no_python_fails_as_python_says(docker: Any, workspace: Mount) -> None:
    done = docker.run("train.py", options=workspace(train__py="def ("))
    assert done.code == 1
    assert "ended with exit code 1" in done.err  # perhaps within a line of the other rank's traceback

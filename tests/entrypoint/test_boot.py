"""The contract of the entrypoint without a container: what starts, what is said where, what the exit code is."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rig.emit import NCCL_MARK

MACHINES = Path(__file__).parents[1] / "machines"
SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"


def shown(done: Any) -> tuple[list[str], dict[str, str]]:
    argv, environ = json.loads(done.out)
    return argv, environ


@pytest.mark.parametrize("code", [0, 3, 42, 137, 255])
def test_the_exit_code_of_a_program_comes_through(here: Any, code: int) -> None:
    assert here.boot("sh", "-c", f"exit {code}").code == code


@pytest.mark.parametrize("code", [0, 3, 42, 137])
def test_the_exit_code_of_a_script_comes_through(here: Any, code: int) -> None:
    here.write("train.py", f"import sys; sys.exit({code})")
    assert here.boot("train.py").code == code


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("trian.py",), 127, "rig: error: trian.py does not exist; there is train.py"),
        (("no-such-command",), 127, "rig: error: no-such-command: command not found"),
        (("./folder.py",), 126, "rig: error: ./folder.py is a folder, not a script"),
        (("./plain.sh",), 126, "rig: error: ./plain.sh is not executable: chmod +x"),
        (
            ("./bad-interpreter",),
            127,
            "rig: error: ./bad-interpreter: the interpreter in its first line does not exist",
        ),
    ],
)
def test_what_cannot_start_is_one_line(here: Any, words: tuple[str, ...], code: int, says: str) -> None:
    here.write("train.py", "")
    here.write("plain.sh", "")
    here.write("bad-interpreter", "#!/no/such/thing\n", 0o755)
    (here.work / "folder.py").mkdir()
    done = here.boot(*words)
    assert (done.code, done.lines[-1], done.out) == (code, says, "")
    assert sum("error" in line for line in done.lines) == 1


def test_a_script_without_a_first_line_runs_as_a_shell_would_run_it(here: Any) -> None:
    here.write("plain", 'echo "$0 $1"\n', 0o755)
    assert here.boot("./plain", "x").out == "./plain x\n"


def test_standard_output_is_the_program_s_alone(here: Any) -> None:
    assert here.boot("python", "-c", "print(1)").out == "1\n"
    here.write("train.py", "import os; os.environ['RANK'] == '0' and print(1)")
    assert here.boot("train.py").out == "1\n"


def test_nothing_but_lines_of_rig_stand_on_standard_error(here: Any) -> None:
    done = here.boot("true")
    assert done.lines and all(line.startswith("rig: ") for line in done.lines)
    assert "\033" not in done.err


def test_quiet_leaves_only_what_ended_the_boot(here: Any) -> None:
    assert here.boot("true", RIG_QUIET="1").err == ""
    assert here.boot("nothing-here", RIG_QUIET="1").lines == ["rig: error: nothing-here: command not found"]


def test_no_words_and_no_terminal_mean_the_page_and_success(here: Any) -> None:
    done = here.boot()
    assert (done.code, done.out) == (0, "")
    assert any(line.startswith("rig: found no GPU") for line in done.lines)


def test_rig_is_a_verb_without_a_page(here: Any) -> None:
    done = here.boot("rig", "plan", "--json")
    assert done.err == ""
    assert "ranks" in json.loads(done.out)
    assert here.boot("rig", "nonsense").code == 64


def test_signals_that_python_ignores_reach_the_program_as_they_were(here: Any) -> None:
    done = here.boot("sh", "-c", "grep SigIgn /proc/self/status")
    bare = subprocess.run(["sh", "-c", "grep SigIgn /proc/self/status"], capture_output=True, text=True, check=True)
    assert done.out == bare.stdout


@pytest.mark.parametrize(
    ("name", "value"), [("RIG_CPU_RANKS", "two"), ("RIG_CHECKS", "maybe"), ("RIG_QUIET", "yes"), ("RIG_GRACE", "-3")]
)
def test_a_setting_that_cannot_be_is_one_line_and_64(here: Any, name: str, value: str) -> None:
    done = here.boot("true", **{name: value})
    assert done.code == 64
    assert len(done.lines) == 1
    assert done.lines[0].startswith(f"rig: error: {name}={value}: must be ")


@pytest.mark.parametrize("text", [None, "", "no capture", "rig-capture 1\n  lost"])
def test_a_machine_on_paper_that_cannot_be_read_is_one_line_and_64(here: Any, text: str | None) -> None:
    path = here.work / "tree.txt"
    if text is not None:
        path.write_text(text)
    done = here.boot("true", RIG_ROOT=str(path))
    assert done.code == 64
    assert [line for line in done.lines if "error" in line] == done.lines[-1:]
    assert done.lines[-1].startswith(f"rig: error: RIG_ROOT={path}:")


def test_a_strange_setting_is_a_warning_with_the_closest_name(here: Any) -> None:
    done = here.boot("true", RIG_CPU_RANK="4")
    assert done.code == 0
    assert "rig: warning: RIG_CPU_RANK is no setting of rig; RIG_CPU_RANKS is" in done.lines


def test_ranks_on_cpus_are_told_so(here: Any) -> None:
    here.write("train.py", SHOW)
    done = here.boot("train.py", RIG_CPU_RANKS="1")
    _, environ = shown(done)
    assert environ["DS_ACCELERATOR"] == "cpu"
    assert environ["LOCAL_SIZE"] == environ["WORLD_SIZE"] == "1"
    assert int(environ["OMP_NUM_THREADS"]) >= 1
    assert environ["MASTER_ADDR"] == "127.0.0.1"
    assert any("starts train.py: 1 rank (no GPU was found: CPUs over gloo" in line for line in done.lines)


def test_the_user_s_variables_win(here: Any) -> None:
    here.write("train.py", SHOW)
    told = {"OMP_NUM_THREADS": "7", "MASTER_PORT": "29777", "DS_ACCELERATOR": "cuda"}
    _, environ = shown(here.boot("train.py", RIG_CPU_RANKS="1", **told))
    assert {name: environ[name] for name in told} == told


def test_a_scheduler_s_process_stays_one_process(here: Any) -> None:
    here.write("train.py", SHOW)
    told = {"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "node-a", "MASTER_PORT": "1234"}
    done = here.boot("train.py", **told)
    _, environ = shown(done)
    assert {name: environ[name] for name in told} == told
    assert "has started the ranks, this is 3" in done.err


def test_a_node_of_a_job_takes_its_share_of_the_ranks(here: Any) -> None:
    here.write("train.py", "import os; open(os.environ['RANK'], 'w').write(os.environ['WORLD_SIZE'])")
    done = here.boot("train.py", NNODES="3", NODE_RANK="1", MASTER_ADDR="node-a", RIG_CPU_RANKS="2")
    assert done.code == 0
    assert {p.name: p.read_text() for p in here.work.iterdir() if p.name.isdigit()} == {"2": "6", "3": "6"}


def test_a_job_that_does_not_say_which_node_this_is_starts_nothing(here: Any) -> None:
    here.write("train.py", "print(1)")
    done = here.boot("train.py", RIG_NODES="gpu-[01-02]")
    assert (done.code, done.out) == (78, "")
    assert "RIG_NODE_RANK" in done.err


def test_files_of_a_boot_are_whole(here: Any) -> None:
    here.boot("true")
    for name in ("facts.json", "plan.json", "checks.json", "ds_config.json"):
        json.loads((here.state / name).read_text())
    assert {"hostfile", "env"} < {p.name for p in here.state.iterdir()}
    wanted = {"facts.json", "plan.json", "checks.json", "ds_config.json", "hostfile", "env"}
    assert {p.name for p in here.state.iterdir()} == wanted  # and no half file
    assert (here.state / "env").stat().st_mode & 0o777 == 0o600


def test_the_environment_of_the_plan_is_there_and_is_not_taken_for_the_user_s_later(here: Any) -> None:
    _, environ = shown(here.boot("python", "-c", SHOW))
    assert environ["RIG_DS_CONFIG"] == str(here.state / "ds_config.json")
    here.environ.update(environ)
    plan = json.loads(here.boot("rig", "plan", "--json").out)
    assert [line["source"] for line in plan["environment"] if line["name"] == "DS_ACCELERATOR"] == ["detection"]


def test_the_placeholder_becomes_the_path(here: Any) -> None:
    argv, _ = shown(here.boot("python", "-c", SHOW, "--config={ds_config}"))
    assert argv == [f"--config={here.state}/ds_config.json"]


def test_enforced_checks_end_the_boot(here: Any) -> None:
    broken = {"MASTER_PORT": "0", "NNODES": "2", "NODE_RANK": "5", "MASTER_ADDR": "a"}
    assert here.boot("true", **broken).code == 0
    done = here.boot("true", RIG_CHECKS="enforce", **broken)
    assert done.code == 78
    assert "nothing is started" in done.lines[-1]


def test_a_replay_writes_nccl_conf_only_into_the_state_folder(here: Any) -> None:
    done = here.boot("true", RIG_ROOT=str(MACHINES / "hgx-h100-ib" / "tree.txt"))
    assert done.code == 0, done.err
    lines = (here.state / "nccl.conf").read_text().splitlines()
    assert lines[0] == NCCL_MARK and any(line.startswith("NCCL_IB_HCA==mlx5_") for line in lines)
    assert not os.path.exists(os.path.join(here.environ["HOME"], ".nccl.conf"))
    assert not any(line.startswith("NCCL_IB_HCA") for line in (here.state / "env").read_text().splitlines())
    assert here.boot("true").code == 0  # the next machine needs none
    assert not (here.state / "nccl.conf").exists()


def test_a_state_folder_that_cannot_be_is_one_line_and_64(here: Any) -> None:
    here.write("file", "")
    done = here.boot("true", RIG_STATE=f"{here.work}/file/x")
    assert (done.code, done.lines) == (64, [f"rig: error: RIG_STATE={here.work}/file/x: Not a directory"])
    deep = here.work / "a" / "b"
    assert here.boot("true", RIG_STATE=str(deep)).code == 0
    assert (deep / "plan.json").exists()


def test_a_program_of_another_architecture_is_one_line_and_126(here: Any) -> None:
    other = here.write("other", "", 0o755)
    header = bytearray(Path("/bin/true").read_bytes()[:4096])
    header[18:20] = (0xF7).to_bytes(2, "little")  # e_machine: BPF, which no kernel runs as a program
    other.write_bytes(bytes(header))
    done = here.boot("./other")
    assert (done.code, done.out) == (126, "")
    assert done.lines[-1].startswith("rig: error: ./other: not a program for this machine (")


def test_an_empty_file_runs_as_a_shell_would_run_it(here: Any) -> None:
    here.write("empty", "", 0o755)
    assert here.boot("./empty").code == 0


def test_without_a_path_the_default_of_the_system_is_searched(here: Any) -> None:
    here.write("python", "#!/bin/sh\necho wrong\n", 0o755)
    here.write("python3", "#!/bin/sh\necho wrong\n", 0o755)
    here.write("train.py", "print('right')")
    del here.environ["PATH"]
    assert "wrong" not in here.boot("train.py", RIG_CPU_RANKS="1").out


def test_a_model_is_a_path_where_it_names_one(here: Any) -> None:
    folder = here.work / "run=3"
    folder.mkdir()
    told = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100}
    (folder / "config.json").write_text(json.dumps(told))
    assert here.boot("true", RIG_MODEL=str(folder)).code == 0
    assert here.boot("true", RIG_MODEL="run=3/config.json").code == 0
    done = here.boot("true", RIG_MODEL=f"{folder}/none=1.json")
    assert done.code == 64 and "there is no such file" in done.lines[-1]


def test_a_ranks_file_that_cannot_be_written_is_said_once(here: Any) -> None:
    here.write("train.py", "")
    (here.state / "ranks.json").mkdir(parents=True)
    done = here.boot("train.py", RIG_CPU_RANKS="2")
    assert done.code == 0
    assert done.err.count(f"rig: warning: {here.state}/ranks.json was not written: Is a directory") == 1


def test_a_capture_goes_where_its_output_goes(here: Any) -> None:
    done = here.boot("rig", "capture", "--no-driver", "--root", str(MACHINES / "nothing" / "tree.txt"))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("rig-capture 1\n") and len(done.out) > 1000
    assert not (here.work / "rig-capture.txt").exists()

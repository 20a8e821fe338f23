"""The contract of the entrypoint in the image: each row and each promise, without a GPU."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.container

Mount = Callable[..., list[str]]
SHOW = "import json, os; print(json.dumps(dict(os.environ)))"
WRITE = "import os; [os.makedirs(os.path.expanduser(f'~/{p}/x')) for p in ('.cache', '.triton')]; print('written')"
NOBODY = ["--user", "12345:0"]
READ_ONLY = ["--read-only", "--tmpfs", "/run", "--tmpfs", "/tmp"]
NO_NETWORK = ["--network", "none"]


@pytest.mark.parametrize("code", [0, 3, 42, 137])
def test_the_exit_code_comes_through(docker: Any, workspace: Mount, code: int) -> None:
    assert docker.run("bash", "-c", f"exit {code}").code == code
    script = f"import os, sys; sys.exit({code} if os.environ['RANK'] == '1' else 0)"
    assert docker.run("train.py", options=workspace(train__py=script)).code == code


def test_a_signal_is_128_more(docker: Any) -> None:
    assert docker.run("bash", "-c", "kill -TERM $$").code == 143
    assert docker.run("python", "-c", "import os; os.kill(os.getpid(), 9)").code == 137


def test_standard_output_is_the_program_s_alone(docker: Any) -> None:
    done = docker.run("python", "-c", "print(1)")
    assert (done.code, done.out) == (0, "1\n")
    assert done.err.splitlines() == done.lines != []
    quiet = docker.run("python", "-c", "print(1)", options=["--env", "RIG_QUIET=1"])
    assert (quiet.out, quiet.err) == ("1\n", "")


def test_a_script_is_launched_on_cpus_where_there_is_no_gpu_and_that_is_said(docker: Any, workspace: Mount) -> None:
    options = workspace(train__py="import os; open('rank' + os.environ['RANK'], 'w').write(os.environ['WORLD_SIZE'])")
    done = docker.run("train.py", options=[*options, "--env", "RIG_CPU_RANKS=3"])
    assert done.code == 0
    folder = Path(options[1].partition(":")[0])
    assert sorted((p.name, p.read_text()) for p in folder.glob("rank*")) == [(f"rank{n}", "3") for n in range(3)]
    assert any("3 ranks (no GPU was found: CPUs over gloo" in line for line in done.lines)


def test_any_program_runs_with_the_environment_of_the_plan(docker: Any) -> None:
    environ = json.loads(docker.run("python", "-c", SHOW).out)
    assert environ["DS_ACCELERATOR"] == "cpu"
    assert environ["RIG_DS_CONFIG"] == "/run/rig/ds_config.json"
    shown = docker.run("sh", "-c", "cat $RIG_DS_CONFIG; ls /run/rig")
    assert '"stage": 3' in shown.out
    assert {"facts.json", "plan.json", "checks.json", "ds_config.json", "hostfile", "env"} <= set(shown.out.split())


def test_no_words_and_no_terminal_are_the_page_and_success(docker: Any) -> None:
    done = docker.run()
    assert (done.code, done.out) == (0, "")
    assert any("found no GPU" in line for line in done.lines)


def test_no_words_and_a_terminal_are_the_page_and_a_shell(docker: Any, terminal: Any) -> None:
    code, shown = terminal([docker.image], "echo config=$RIG_DS_CONFIG; exit 7\n")
    assert code == 7
    assert "found no GPU" in shown
    assert "config=/run/rig/ds_config.json" in shown


def test_colours_are_for_terminals_and_can_be_refused(docker: Any, terminal: Any) -> None:
    word = "warning\033[0m"
    assert word in terminal(["--env", "RIG_STRANGE=1", docker.image, "true"], "")[1]
    assert word not in terminal(["--env", "RIG_STRANGE=1", "--env", "NO_COLOR=1", docker.image, "true"], "")[1]


def test_a_verb_has_no_page(docker: Any) -> None:
    done = docker.run("rig", "plan", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["ranks"]


def test_the_first_process_is_an_init(docker: Any) -> None:
    assert docker.run("cat", "/proc/1/comm").out == "tini\n"


@pytest.mark.parametrize(
    "options",
    [NOBODY, ["--user", "12345:12345"], READ_ONLY, ["--read-only"], NO_NETWORK, [*NOBODY, *READ_ONLY, *NO_NETWORK]],
    ids=["uid-12345", "uid-and-gid-12345", "read-only", "read-only-without-tmpfs", "no-network", "all-at-once"],
)
def test_two_ranks_train_as_anybody_anywhere(docker: Any, workspace: Mount, options: list[str]) -> None:
    mount = workspace("train_gloo.py")
    done = docker.run("train_gloo.py", "3", options=[*mount, *options])
    assert done.code == 0, done.err
    assert "saved 3" in done.out
    assert docker.run("python", "-c", WRITE, options=options).out == "written\n"


def test_an_unknown_user_gets_a_name_where_the_group_allows_it(docker: Any) -> None:
    assert docker.run("sh", "-c", "id -un; echo $USER", options=NOBODY).out == "user\nuser\n"
    foreign = docker.run("sh", "-c", "echo $USER $LOGNAME; test -w $HOME", options=["--user", "12345:12345"])
    assert (foreign.code, foreign.out) == (0, "user user\n")


def test_files_of_an_unknown_user_are_its_own(docker: Any) -> None:
    assert docker.run("sh", "-c", "stat -c %a $RIG_STATE", options=[*NOBODY, *READ_ONLY]).out == "700\n"


def test_hooks_of_the_image_take_part(docker: Any, tmp_path: Path) -> None:
    (tmp_path / "10-site.sh").write_text("export SITE=here RIG_CPU_RANKS=1")
    (tmp_path / "20-run").write_text("#!/bin/sh\necho from-hook\n")
    (tmp_path / "20-run").chmod(0o755)
    (tmp_path / "30-note.txt").write_text("Welcome to the cluster\n")
    (tmp_path / "40-broken.sh").write_text("false")
    options = ["--volume", f"{tmp_path}:/etc/rig/boot.d:ro"]
    done = docker.run("sh", "-c", "echo $SITE", options=options)
    assert (done.code, done.out) == (0, "here\n")
    assert "from-hook" in done.err
    assert "rig: Welcome to the cluster" in done.lines
    assert "rig: warning: hook /etc/rig/boot.d/40-broken.sh ended with exit code 1" in done.lines
    (tmp_path / "40-broken.sh").rename(tmp_path / "40-broken.sh.required")
    done = docker.run("echo", "started", options=options)
    assert (done.code, done.out) == (78, "")


@pytest.mark.parametrize("shell", [["bash", "-lc"], ["sh", "-lc"], ["bash", "-c"]])
def test_shells_that_pass_the_entrypoint_by_have_the_same_environment(docker: Any, shell: list[str]) -> None:
    container = docker.start("sleep", "1000", options=["--env", "NCCL_DEBUG=INFO"])
    container.wait_for("found no GPU")
    out = container.exec(*shell, "echo $RIG_DS_CONFIG $DS_ACCELERATOR $NCCL_DEBUG; command -v python").out
    assert out == "/run/rig/ds_config.json cpu INFO\n/opt/venv/bin/python\n"


def test_secrets_are_in_no_file_and_another_user_s_shell_is_quiet(docker: Any) -> None:
    told = ("http_proxy=me:s3cret-1@proxy:3128", "HF_TOKEN=s3cret-2", "HF_HUB_PAT=s3cret-3", "NCCL_DEBUG=INFO")
    container = docker.start("sleep", "1000", options=[word for one in told for word in ("--env", one)])
    container.wait_for("found no GPU")
    assert container.exec("sh", "-c", "grep -r s3cret /run/rig; stat -c %a /run/rig/env").out == "600\n"
    for shell in ("bash", "sh"):
        shown = container.exec(shell, "-lc", "echo in", options=["--user", "12345:12345"])
        assert (shown.code, shown.out, shown.err) == (0, "in\n", "")


def test_a_capture_comes_out_of_the_container(docker: Any) -> None:
    done = docker.run("rig", "capture")
    assert (done.code, done.out.splitlines()[0]) == (0, "rig-capture 1")


def test_a_boot_can_be_made_by_hand(docker: Any) -> None:
    done = docker.run("-c", "rig boot -- sh -c 'echo $RIG_DS_CONFIG; exit 5'", options=["--entrypoint", "bash"])
    assert (done.code, done.out) == (5, "/run/rig/ds_config.json\n")


def test_the_user_s_python_does_not_see_ours_nor_ours_theirs(docker: Any, workspace: Mount) -> None:
    assert docker.run("python", "-c", "import rig").code == 1
    options = workspace(json__py="raise SystemExit(9)", rig__py="raise SystemExit(9)", os__py="raise SystemExit(9)")
    options += [
        "--env",
        "PYTHONPATH=/workspace",
        "--env",
        "PYTHONHOME=/nowhere",
        "--env",
        "PYTHONSTARTUP=/workspace/os.py",
    ]
    assert docker.run("sh", "-c", "exit 0", options=options).code == 0


def test_a_config_is_given_to_a_script_that_takes_one(docker: Any, workspace: Mount) -> None:
    script = (
        "import argparse, os, deepspeed\n"
        "parser = deepspeed.add_config_arguments(argparse.ArgumentParser())\n"
        "args = parser.parse_args()\n"
        "os.write(1, f'{args.deepspeed_config}\\n'.encode())\n"
    )
    options = [*workspace(train__py=script), "--env", "RIG_CPU_RANKS=1"]
    done = docker.run("train.py", options=options)
    assert done.out.splitlines()[-1] == "/run/rig/ds_config.json", done.err
    assert any("takes a DeepSpeed config and was given none" in line for line in done.lines)
    assert docker.run("train.py", options=[*options, "--env", "RIG_FILL=0"]).out.splitlines()[-1] == "None"


def test_the_placeholder_is_the_path_of_the_generated_config(docker: Any) -> None:
    assert docker.run("echo", "--config={ds_config}").out == "--config=/run/rig/ds_config.json\n"


def test_a_config_of_the_user_is_filled_in_a_copy_and_shown(docker: Any, workspace: Mount) -> None:
    config = '{"train_batch_size": 8, "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}} // mine'
    options = [*workspace(show__py="import sys; print(sys.argv[2])", ds__json=config), "--env", "RIG_CPU_RANKS=1"]
    done = docker.run("show.py", "--deepspeed_config", "ds.json", options=options)
    assert done.out == "/run/rig/ds.filled.json\n"
    assert any("zero_optimization.reduce_bucket_size: auto -> " in line for line in done.lines)
    assert any("ds.json:1: read by DeepSpeed (HJSON)" in line for line in done.lines)
    kept = docker.run("show.py", "--deepspeed_config", "ds.json", options=[*options, "--env", "RIG_FILL=0"])
    assert kept.out == "ds.json\n"

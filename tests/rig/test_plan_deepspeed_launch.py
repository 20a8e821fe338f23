"""Launches, environment files, planned runs, compiled ops, signals and self-tests: every finding has a test."""

from typing import Any

import pytest

from rig.judge import judge, judge_deepspeed_env

TWO = {"nodes": 2, "gpus_per_node": 8, "deepspeed": "0.12.6"}
ONE = {"nodes": 1, "gpus_per_node": 1}

# kind, input, world, verdict, code, a word of the message, a part of the output
CASES: list[tuple[str, dict[str, Any], dict[str, Any], str, str, str, dict[str, Any]]] = [
    (
        "launch",
        {"args": ["--ssh_port", "22"], "env": {}},
        TWO,
        "fix",
        "ssh-port",
        "KeyError",
        {"args": ["--ssh_port", "22"]},
    ),
    ("launch", {"started_on": ["a", "b"]}, TWO, "reject", "launch-twice", "first host only", {}),
    ("launch", {"started_on": ["a", "a"]}, TWO, "accept", "", "", {}),
    ("launch", {"train_argparse_options": []}, ONE, "fix", "no-local-rank", "parser", {"args": ["--no_local_rank"]}),
    ("selftest", {"stage": 1, "device": "cpu"}, ONE, "reject", "selftest-zero1-cpu", "no gradient", {}),
    (
        "launch",
        {"ssh": {"a": "ok", "b": "Permission denied (publickey)"}},
        TWO,
        "reject",
        "ssh-check",
        "b: does not accept the key",
        {},
    ),
    ("launch", {"ssh": {"a": "Host key verification failed"}}, TWO, "reject", "ssh-check", "host key", {}),
    ("launch", {"ssh": {"a": "Connection refused"}}, TWO, "reject", "ssh-check", "no sshd", {}),
    ("launch", {"ssh": {"a": "Connection timed out"}}, TWO, "reject", "ssh-check", "no answer", {}),
    (
        "launch",
        {"ssh": {"a": "ok"}, "hostfile": "a slots=8\nb slots=8\n"},
        TWO,
        "reject",
        "ssh-check",
        "b: was not tried",
        {},
    ),
    ("launch", {"ssh": {"a": "ok", "b": "ok"}}, TWO, "accept", "", "", {}),
    ("launch", {"args": ["--ssh_port", "22"], "env": {}}, TWO | {"deepspeed": "0.14.1"}, "accept", "", "", {}),
    ("launch", {"args": ["--ssh_port", "22"], "env": {"PDSH_SSH_ARGS_APPEND": ""}}, TWO, "accept", "", "", {}),
    ("launch", {"launcher": "slurm", "which": {"srun": None}}, TWO, "reject", "launcher-missing", "srun", {}),
    ("launch", {"launcher": "pdsh", "which": {"pdsh": "present"}}, TWO, "accept", "", "", {}),
    ("launch", {"started_on": ["a", "b"], "launcher": "torchrun"}, TWO, "accept", "", "", {}),
    (
        "launch",
        {"args": ["--num_nodes", "4"], "hostfile": "a slots=8\nb slots=8\n"},
        TWO,
        "reject",
        "nodes-missing",
        "4 nodes",
        {},
    ),
    ("launch", {"argv": ["python", "train.py"], "env": {}}, TWO, "reject", "no-launcher", "16 ranks", {}),
    (
        "launch",
        {"argv": ["python3", "t.py"], "env": {"RANK": "0"}},
        ONE,
        "fix",
        "no-launcher",
        "LOCAL_RANK",
        {"env": {"WORLD_SIZE": "1"}},
    ),
    ("launch", {"launcher": "openmpi", "mpi4py": False}, TWO, "reject", "no-launcher", "mpi4py", {}),
    ("launch", {"train_argparse_options": ["--local_rank"]}, ONE, "accept", "", "", {}),
    (
        "launch",
        {"env": {"CUDA_VISIBLE_DEVICES": "0,2"}},
        {"gpus_per_node": 4},
        "fix",
        "visible-include",
        "gaps",
        {"args": ["--include", "localhost:0,2"]},
    ),
    ("launch", {"env": {"CUDA_VISIBLE_DEVICES": "0,1"}}, {"gpus_per_node": 2}, "accept", "", "", {}),
    (
        "launch",
        {"env": {"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a"}, "gpu_uuids": ["GPU-a", "GPU-b"]},
        {"gpus_per_node": 2},
        "fix",
        "visible-index",
        "1,0",
        {"env": {"CUDA_VISIBLE_DEVICES": "1,0"}},
    ),
    (
        "launch",
        {"env": {"CUDA_VISIBLE_DEVICES": "GPU-c"}, "gpu_uuids": ["GPU-a"]},
        ONE,
        "reject",
        "visible-index",
        "no GPU",
        {},
    ),
    ("launch", {"launcher": "slurm", "args": ["--include", "a:0"]}, TWO, "reject", "slurm-env", "--include", {}),
    ("launch", {"env": {"NCCL_DEBUG": "INFO # loud"}}, TWO, "reject", "env-file", "NCCL_DEBUG", {}),
    (
        "launch",
        {"env": {"TORCH_LOGS": "a b"}},
        TWO,
        "fix",
        "env-file",
        "TORCH_LOGS",
        {"deepspeed_env": "TORCH_LOGS='a b'\n"},
    ),
    ("launch", {"env": {"GLOO_SOCKET_IFNAME": "eth1"}}, ONE, "accept", "", "", {}),
    (
        "launch",
        {"docker_env_on_worker": {"A": "1"}, "launcher": "pdsh"},
        TWO,
        "require",
        "session-env",
        "ssh sessions",
        {},
    ),
    (
        "launch",
        {"hostname_I": "172.17.0.9 192.0.2.10"},
        TWO,
        "fix",
        "master-addr",
        "172.17.0.9",
        {"args": ["--master_addr", "192.0.2.10"]},
    ),
    ("launch", {"hostname_I": "192.0.2.10 172.17.0.9", "platform_ip": "192.0.2.10"}, TWO, "accept", "", "", {}),
    ("launch", {"hostname_I": "172.17.0.9"}, TWO, "reject", "master-addr", "no address", {}),
    (
        "launch",
        {"interfaces": ["eth0:192.0.2.1", "eth1:192.0.2.2", "docker0:172.17.0.1"]},
        TWO,
        "warn",
        "iface",
        "3 interfaces",
        {},
    ),
    (
        "launch",
        {"interfaces": ["ens5:192.0.2.1", "docker0:172.17.0.1"]},
        TWO,
        "fix",
        "iface",
        "ens5",
        {"env": {"GLOO_SOCKET_IFNAME": "ens5"}},
    ),
    ("launch", {"interfaces": ["eth0:192.0.2.1"]}, TWO, "accept", "", "", {}),
    ("launch", {"launcher": "openmpi", "interfaces": ["ens5:192.0.2.1"]}, TWO, "reject", "openmpi-eth0", "ens5", {}),
    ("launch", {"launcher": "openmpi", "args": ["--exclude", "a"]}, TWO, "reject", "openmpi-eth0", "--include", {}),
    ("launch", {"mtu": {"node-a": 9000, "node-b": 1500}}, TWO, "warn", "mtu", "node-a 9000", {}),
    ("launch", {"mtu": {"container": 1450, "host": 1500}}, TWO, "accept", "", "", {}),
    ("launch", {"dev_shm_bytes": 1 << 30}, TWO, "accept", "", "", {}),
    ("launch", {"dev_shm_bytes": 64 << 20}, ONE, "warn", "shm", "64 MB", {}),
    (
        "plan",
        {"stage": 3, "params": 7e9, "tokens_per_gpu_micro": 8192},
        TWO | {"gpu": "A100", "link_gbps": 200, "nics": 8},
        "accept",
        "",
        "",
        {},
    ),
    (
        "plan",
        {"stage": 3, "params": 7e9, "tokens_per_gpu_micro": 2048},
        {"nodes": 1, "gpus_per_node": 8, "gpu": "RTX 4090"},
        "warn",
        "comm-bound",
        "between the GPUs",
        {},
    ),
    (
        "plan",
        {"stage": 2, "params": 7e9, "tokens_per_gpu_micro": 2048, "gas": 4},
        TWO | {"gpu": "A100", "link_gbps": 10},
        "warn",
        "comm-bound",
        "ZeRO-2",
        {},
    ),
    (
        "plan",
        {"stage": 1, "params": 1e9, "tokens_per_gpu_micro": 2048, "gas": 256},
        TWO | {"gpu": "A100", "link_gbps": 25},
        "accept",
        "",
        "",
        {},
    ),
    ("plan", {"stage": 3, "moe": True, "stage3_prefetch_bucket_size": 0}, ONE, "accept", "", "", {}),
    ("ops", {"op": "fused_adam", "gpu": True, "nvcc": None, "prebuilt": True}, ONE, "accept", "", "", {}),
    (
        "ops",
        {"op": "fused_adam", "gpu": True, "nvcc": None, "type": "Adam"},
        ONE,
        "fix",
        "torch-adam",
        "nvcc",
        {"optimizer": {"type": "Adam"}},
    ),
    ("ops", {"op": "cpu_adam", "gpu": True, "nvcc": None}, ONE, "reject", "jit-nvcc", "CPUAdam", {}),
    ("ops", {"op": "quantizer", "gpu": True, "nvcc": None}, ONE, "reject", "jit-nvcc", "quantizer", {}),
    ("ops", {"op": "cpu_adam", "gpu": False, "nvcc": None}, ONE, "accept", "", "", {}),
    ("ops", {"op": "quantizer", "gpu": False, "nvcc": "12.1"}, ONE, "warn", "jit-no-gpu", "TORCH_CUDA_ARCH_LIST", {}),
    ("ops", {"op": "cpu_adam", "nvcc": "12.4", "torch_cuda": "12.1"}, ONE, "reject", "cuda-mismatch", "12.4", {}),
    ("ops", {"op": "cpu_adam", "nvcc": "12.3", "torch_cuda": "cu121"}, ONE, "accept", "", "", {}),
    (
        "ops",
        {"op": "cpu_adam", "nvcc": "12.4", "torch_cuda": "12.1", "env": {"DS_SKIP_CUDA_CHECK": "1"}},
        ONE,
        "warn",
        "cuda-mismatch",
        "12.4",
        {},
    ),
    ("signal", {"send": "SIGINT", "to": "runner"}, ONE, "require", "signal-forward", "SIGINT", {}),
    ("signal", {"send": "SIGSEGV", "to": "rank"}, ONE, "require", "exit-status", "non-zero", {}),
    ("selftest", {"stage": 2, "device": "cpu"}, ONE, "accept", "", "", {}),
]


@pytest.mark.parametrize(("kind", "given", "world", "verdict", "code", "word", "output"), CASES)
def test_facts_are_judged(
    kind: str, given: dict[str, Any], world: dict[str, Any], verdict: str, code: str, word: str, output: dict[str, Any]
) -> None:
    told = judge(kind, given, world)
    assert told.verdict == verdict, told.findings
    assert code in (told.codes or ("",)), told.findings
    assert word in told.message
    for key, want in output.items():
        got = told.output[key]
        assert {**got, **want} == got if isinstance(want, dict) else got == want


def test_every_host_that_fails_is_named() -> None:
    told = judge("launch", {"ssh": {"a": "refused", "b": "ok", "c": "timed out"}}, TWO)
    assert [finding.text.split(":")[0] for finding in told.findings] == ["a", "c"]
    assert all(finding.fix for finding in told.findings)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("A=1\n\nB=2\n", "A=1\nB=2\n"),
        ("A=1\nBROKEN\n", "A=1\n"),
        (" export A=1 \n", "A=1\n"),
        ("LS_COLORS=di=01;34\n", "LS_COLORS='di=01;34'\n"),
        ("A=a b\n", "A='a b'\n"),
        ("A='a b'\n", "A='a b'\n"),
        ("A=it's\n", "A='it'\"'\"'s'\n"),
        ("A=1 # why\n", "A=1\n"),
        ("A=x#y\n", "A='x#y'\n"),
        ("A=$(reboot)\n", "A='$(reboot)'\n"),
        ('A="$HOME"\n', "A='\"$HOME\"'\n"),
        ('A="a;b"c\n', 'A="a;b"c\n'),
    ],
)
def test_an_environment_file_is_made_safe_for_the_shell(text: str, output: str) -> None:
    told = judge_deepspeed_env(text, TWO)
    assert told.output == output
    assert told.verdict == ("accept" if text == output else "fix")
    assert judge_deepspeed_env(output, TWO).verdict == "accept"


def test_a_name_that_is_none_is_refused() -> None:
    assert judge_deepspeed_env("A-B=1\n", TWO).verdict == "reject"
    assert judge_deepspeed_env("1A=1\n", TWO).code == "env-file"


def test_of_a_file_that_was_appended_to_only_this_launch_is_kept() -> None:
    text = "NCCL_DEBUG=INFO\nOLD=1\nMINE=2\nNCCL_DEBUG=WARN\n"
    told = judge_deepspeed_env(text, TWO | {"env": {"MINE": "2"}})
    assert told.output == "MINE=2\nNCCL_DEBUG=WARN\n"
    assert "OLD" in told.message

"""DeepSpeed's hostfile grammar, our writer, and what is said about a file."""

import time

import pytest

from rig import emit
from rig.judge import Judgement, judge_hostfile
from rig.plan.hostfile import BadLine, Entry, read_hostfile

TWO = {"nodes": 2, "gpus_per_node": 8}


def told(text: str, **world: object) -> Judgement:
    return judge_hostfile(text, TWO | world)


def test_the_grammar_is_the_launchers() -> None:
    found = read_hostfile(
        "# c\n\n  a\tslots=8 max_slots=8\r\nb slots=4x\nc slots = 8\nd:8\ne slots=\n\ufefff slots=1\n"
    )
    assert found.entries == (
        Entry(3, "a", 8, " max_slots=8"),
        Entry(4, "b", 4, "x"),
        Entry(8, "\ufefff", 1, ""),
    )
    assert found.bad == (BadLine(5, "c slots = 8"), BadLine(6, "d:8"), BadLine(7, "e slots="))


def test_what_is_written_is_read_back_in_its_order() -> None:
    hosts = [(f"n{place}", 1 + place % 8) for place in range(100)]
    found = read_hostfile(emit.hostfile(hosts))
    assert [(entry.host, entry.slots) for entry in found.entries] == hosts and found.bad == ()


def test_a_good_file_is_accepted_as_it_is() -> None:
    text = "# ours\nnode-a slots=8\nnode-b slots=8 # second\n"
    assert told(text)[:3] == ("accept", "", text)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("node-a:8", "hostfile-slots"),
        ("node-a slots = 8", "hostfile-slots"),
        ("node-a Slots=8", "hostfile-slots"),
        ("node-a max_slots=8 slots=8", "hostfile-slots"),
        ("node-a", "hostfile-slots"),
        ("node-a 8", "hostfile-slots"),
        ("node-a slots=8x", "hostfile-slots"),
        ("\ufeffnode-a slots=8", "hostfile-bom"),
        ("node-[a] slots=8", None),
    ],
)
def test_other_dialects_are_rewritten(line: str, code: str | None) -> None:
    found = told(f"{line}\nnode-b slots=8\n")
    if code is None:
        assert (found.verdict, found.code) == ("reject", "hostfile-range")
    else:
        assert (found.verdict, found.code, found.output) == ("fix", code, "node-a slots=8\nnode-b slots=8\n")


def test_bracket_expressions_are_spread_out() -> None:
    found = told("gpu-[01-02] slots=8\n")
    assert (found.verdict, found.code, found.output) == ("fix", "hostfile-range", "gpu-01 slots=8\ngpu-02 slots=8\n")
    assert told("a,b slots=8\n").output == "a slots=8\nb slots=8\n"
    assert told("a,b:2222 slots=8\n").output == "a slots=8\ndsnode-1 slots=8\n"


def test_ports_become_aliases() -> None:
    found = told("a:2222 slots=8\n[fe80::1]:22 slots=8\n")
    assert (found.verdict, found.code) == ("fix", "hostfile-port")
    assert found.output == "dsnode-0 slots=8\ndsnode-1 slots=8\n"
    assert found.ssh_config == (
        {"Host": "dsnode-0", "HostName": "a", "Port": 2222},
        {"Host": "dsnode-1", "HostName": "fe80::1", "Port": 22},
    )
    assert told("fe80::1 slots=8\nb slots=8\n").ssh_config == ({"Host": "dsnode-0", "HostName": "fe80::1"},)


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("a slots=0\nb slots=8\n", "hostfile-slots", "slots=0"),
        ("a slots=-1\nb slots=8\n", "hostfile-slots", "slots=-1"),
        ("a slots=16\nb slots=8\n", "hostfile-slots", "8 GPUs"),
        ("", "hostfile-slots", "no host"),
        ("# only a remark\n", "hostfile-slots", "no host"),
        ("a slots=8\na slots=8\n", "hostfile-duplicate", "slots=16"),
        ("a slots=8\n", "nodes-missing", "the hostfile has 1"),
        ("a;reboot slots=8\nb slots=8\n", "hostfile-name", "';'"),
        ("-oProxyCommand=x slots=8\nb slots=8\n", "hostfile-name", "dash"),
        ("a[2-1] slots=8\n", "hostfile-range", "2-1"),
        ("a[1-999999999] slots=8\n", "hostfile-range", "more than"),
    ],
)
def test_what_cannot_be_repaired_is_refused(text: str, code: str, word: str) -> None:
    found = told(text)
    assert (found.verdict, found.code, found.output) == ("reject", code, None)
    assert word in found.message


def test_one_host_that_is_elsewhere_would_run_here() -> None:
    world = {"nodes": 1, "local_host": "node-a.example"}
    assert judge_hostfile("node-b slots=8\n", world).code == "hostfile-not-local"
    for name in ("node-a", "localhost", "node-a.example"):
        assert judge_hostfile(f"{name} slots=8\n", world).verdict == "accept"
    assert judge_hostfile("192.0.2.7 slots=8\n", world | {"local_names": ["192.0.2.7"]}).verdict == "accept"


def test_uneven_hosts_rotate_local_ranks() -> None:
    found = told("a slots=1\nb slots=2\n")
    assert (found.verdict, found.code) == ("warn", "hostfile-uneven")
    assert "ranks on b get LOCAL_RANK 1,0" in found.message
    assert told("a slots=1\nb slots=2\n", launcher="impi").verdict == "reject"


def test_ten_thousand_hosts_are_judged_in_a_moment() -> None:
    text = "".join(f"node-{place:05} slots=8\n" for place in range(10240))
    start = time.process_time()
    assert judge_hostfile(text, {"nodes": 10240, "gpus_per_node": 8}).verdict == "accept"
    assert time.process_time() - start < 1.0

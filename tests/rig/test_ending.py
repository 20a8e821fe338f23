"""The end of a process is told as a shell's code and in words that help."""

import signal

import pytest

from rig.ending import NAMES, Surrounds, describe, exit_code, oom_kills, signal_name


@pytest.mark.parametrize(("status", "code"), [(0, 0), (3, 3), (255, 255), (-9, 137), (-15, 143), (-7, 135)])
def test_a_signal_is_128_more(status: int, code: int) -> None:
    assert exit_code(status) == code
    if status:
        assert str(code) in describe(status)


def test_the_names_are_linux_s() -> None:
    assert {number: signal.Signals(number).name for number in NAMES} == NAMES
    assert signal_name(40) == "signal 40"


def test_a_full_shm_is_named_with_its_size_and_the_remedy() -> None:
    text = describe(-7, Surrounds(shm_bytes=64 << 20))
    assert "64 MB" in text and "--ipc=host" in text
    assert "large enough?" in describe(-7)


def test_a_kill_at_the_memory_limit_is_told_from_any_other() -> None:
    assert "memory limit of this container" in describe(-9, Surrounds(oom_kills=1))
    assert "dmesg" in describe(-9, Surrounds(oom_kills=0))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n", 2),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", 0),
        ("oom_kill x\n", None),
        ("", None),
        (None, None),
    ],
)
def test_both_kinds_of_control_group_are_read(text: str | None, count: int | None) -> None:
    assert oom_kills(text) == count

"""`rig facts`: the page and the JSON."""

import json
from pathlib import Path

import pytest

from entrypoint import facts
from rig.captured import Captured
from rig.detect import detect
from rig.emit import to_json
from rig.machine import UNLIMITED, Machine

MACHINES = Path(__file__).parents[1] / "machines"
NAMES = sorted(folder.name for folder in MACHINES.iterdir() if (folder / "tree.txt").is_file())


def show(name: str, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert facts.run(["--root", str(MACHINES / name / "tree.txt"), *words]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    return told.out


@pytest.mark.parametrize("name", NAMES)
def test_json_is_the_machine(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    machine = detect(Captured(str(MACHINES / name / "tree.txt")))
    assert json.loads(show(name, capsys, "--json")) == json.loads(to_json(machine))


@pytest.mark.parametrize("name", NAMES)
def test_the_page_names_everything_and_has_no_ragged_ends(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    machine = detect(Captured(str(MACHINES / name / "tree.txt")))
    page = show(name, capsys)
    names = [str(gpu.bus_id) for gpu in machine.gpus] + [port.name for hca in machine.hcas for port in hca.ports]
    assert [one for one in (*names, *(netdev.name for netdev in machine.netdevs)) if one not in page] == []
    assert all(line == line.rstrip() for line in page.splitlines())
    assert "None" not in page


def test_a_gpu_stands_beside_its_nearest_hca(capsys: pytest.CaptureFixture[str]) -> None:
    page = show("hgx-h100-ib", capsys)
    (row,) = [line for line in page.splitlines() if "0000:9b:00.0" in line]
    assert row.endswith("mlx5_5 PIX") and "18 to NVSwitch" in row and "80 GiB" in row
    assert "driver 550.54.15, open modules" in page and "memlock unlimited" in page


def test_a_node_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no node" in show("pod-sriov-vfs", capsys)


def test_what_a_container_was_not_given_is_said() -> None:
    machine = Machine()
    assert "  none" in facts.page(machine)
    host = machine._replace(surroundings=machine.surroundings._replace(gpus_on_bus=8))
    assert any("the host has 8 (docker: --gpus all)" in line for line in facts.page(host))


def test_a_driver_that_does_not_answer_is_said() -> None:
    page = facts.page(Machine(nvml="unresponsive", unresponsive_gpu="0000:1b:00.0"))
    assert "GPUs (the driver does not answer), while it was asked about 0000:1b:00.0" in page
    assert any("mismatch" in line for line in facts.page(Machine(nvml="failed", nvml_error="version mismatch")))


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "?"), (UNLIMITED, "unlimited"), (0, "0 B"), (65536, "64 KiB"), (1536, "1.5 KiB"), (80 << 30, "80 GiB")],
)
def test_sizes(number: int | None, text: str) -> None:
    assert facts.size(number) == text


@pytest.mark.parametrize("words", [["--root", "/no/such/place"], ["--root", ""], ["--wrong"], ["extra"]])
def test_wrong_usage_is_64_and_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert facts.run(words) == 64
    told = capsys.readouterr()
    assert told.out == "" and told.err.strip()
    assert words[0] != "--root" or len(told.err.splitlines()) == 1


def test_a_file_that_is_no_capture_is_named_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.txt").write_text("rig-capture 1\n/sys\n  x ~ y\n")
    assert facts.run(["--root", str(tmp_path / "bad.txt")]) == 64
    assert "bad.txt:3: unknown entry" in capsys.readouterr().err


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert facts.run(["--help"]) == 0
    assert "--root" in capsys.readouterr().out

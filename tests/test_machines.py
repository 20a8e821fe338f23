"""A folder in tests/machines is a machine with its right answers.

`tree.txt` is a capture, `expected.json` holds the answers: "facts" what detection must say, "plan" what comes of it.
BLESS=1 writes the facts anew (and leaves the plan); read the difference before it is committed.
"""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from rig.captured import Captured
from rig.detect import detect
from rig.emit import to_json
from rig.machine import Machine
from rig.topology import path_class, tree
from tests.machine_answers import answered

HERE = Path(__file__).parent / "machines"
NAMES = sorted(folder.name for folder in HERE.iterdir() if (folder / "tree.txt").is_file())


def plain(record: object) -> Any:
    return json.loads(to_json(record))


def digest(machine: Machine) -> dict[str, Any]:
    """The facts that rules rest on, short enough to be read in a review."""
    known = tree(machine.pci)
    hcas = [hca for hca in machine.hcas if hca.bus_id]
    return {
        "gpus": [plain(gpu._replace(nvlink_peers=(), p2p_peers=None)) for gpu in machine.gpus],
        "distances": {
            str(gpu.bus_id): {hca.name: path_class(known, str(gpu.bus_id), str(hca.bus_id)) for hca in hcas}
            for gpu in machine.gpus
        },
        "hcas": {hca.name: plain(hca._replace(ports=())) for hca in machine.hcas},
        "ports": {port.name: plain(port) for hca in machine.hcas for port in hca.ports},
        "netdevs": [plain(netdev) for netdev in machine.netdevs],
        "pci": len(machine.pci),
        **{name: plain(getattr(machine, name)) for name in ("numa", "cpu", "kernel", "libraries", "limits", "nvml")},
        "surroundings": plain(machine.surroundings),
    }


def test_there_is_a_machine_of_every_kind() -> None:
    assert len(NAMES) >= 8


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_as_expected(name: str) -> None:
    found, wanted = answered(HERE / name, "facts", digest(detect(Captured(str(HERE / name / "tree.txt")))))
    assert found == wanted


@pytest.mark.parametrize("parts", [("facts", "plan"), ("plan", "facts")])
def test_a_new_machine_is_blessed_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: tuple[str, str]
) -> None:
    monkeypatch.delenv("BLESS", raising=False)
    assert answered(tmp_path, parts[0], 1) == (1, None)  # a machine without answers fails
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("BLESS", "1")
    assert [answered(tmp_path, part, {"of": part}) for part in parts] == [({"of": part},) * 2 for part in parts]
    monkeypatch.delenv("BLESS")
    assert answered(tmp_path, parts[0], 2) == (2, {"of": parts[0]})


@pytest.mark.parametrize("name", NAMES)
def test_a_tree_is_small_enough_to_be_read(name: str) -> None:
    assert (HERE / name / "tree.txt").stat().st_size < 100_000


def test_made_trees_are_what_their_generator_writes() -> None:
    make = runpy.run_path(str(HERE / "make_trees.py"))
    for name in make["MACHINES"]:
        assert make["text_of"](name) == (HERE / name / "tree.txt").read_text(), f"run make_trees.py: {name}"


def test_a_made_tree_says_that_it_was_made() -> None:
    make = runpy.run_path(str(HERE / "make_trees.py"))
    for name in make["MACHINES"]:
        assert "not recorded" in (HERE / name / "tree.txt").read_text().splitlines()[1]

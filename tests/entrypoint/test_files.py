"""nccl.conf goes where NCCL looks, never over a file of the user's, and what stands in such a file counts."""

import os
from pathlib import Path

import pytest

from entrypoint.files import Written, nccl_places, write_files
from entrypoint.look import Seen, look, users_nccl_conf
from rig.emit import NCCL_MARK
from rig.job import World
from rig.machine import Machine
from rig.plan import Setting
from rig.plan.compose import Asked, make_plan
from rig.root import Live
from rig.settings import Settings

MACHINES = Path(__file__).parents[1] / "machines"

HCA = Setting("NCCL_IB_HCA", "=mlx5_0", "detection", "beside the GPUs")
OURS = f"{NCCL_MARK}\nNCCL_IB_HCA==mlx5_0\n"
THEIRS = "NCCL_IB_HCA==mlx5_7\nNCCL_DEBUG=WARN\n"


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.etc, self.home = folder / "nccl.conf", folder / ".nccl.conf"

    def write(self, *nccl: Setting, state: str | None = None, places: "list[str] | None" = None) -> Written:
        world = World((), 1, 0)
        composed = make_plan(Machine(), world, Asked())
        seen = Seen(Machine(), world, composed.plan._replace(nccl=nccl), composed)
        return write_files(seen, state, {}, "{}\n", places or [str(self.etc), str(self.home)])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_first_place_has_it(place: Place) -> None:
    written = place.write(HCA)
    assert place.etc.read_text() == OURS
    assert not place.home.exists()
    assert "NCCL_IB_HCA" not in written.added
    assert not [line for line in written.problems if "nccl" in line.lower()]


def test_a_file_of_the_user_s_stays_and_the_next_place_has_ours(place: Place) -> None:
    place.etc.write_text(THEIRS)
    place.write(HCA)
    assert (place.etc.read_text(), place.home.read_text()) == (THEIRS, OURS)


def test_ours_of_an_earlier_boot_is_replaced_and_a_second_one_removed(place: Place) -> None:
    place.etc.write_text(OURS.replace("mlx5_0", "mlx5_3"))
    place.home.write_text(OURS)
    place.write(HCA)
    assert place.etc.read_text() == OURS
    assert not place.home.exists()


def test_ours_is_removed_on_a_machine_that_needs_none_and_theirs_is_not(place: Place) -> None:
    place.etc.write_text(OURS)
    place.home.write_text(THEIRS)
    place.write()
    assert not place.etc.exists()
    assert place.home.read_text() == THEIRS


def test_where_no_place_is_left_the_environment_has_it_and_that_is_said(place: Place) -> None:
    place.etc.write_text(THEIRS)
    place.home.mkdir()
    written = place.write(HCA)
    assert written.added["NCCL_IB_HCA"] == "=mlx5_0"
    assert f"{place.etc} is yours and stays as it is" in written.problems
    assert "NCCL's settings for this node go into the environment instead" in written.problems


def test_a_place_that_cannot_be_written_is_passed_over(place: Place) -> None:
    written = place.write(HCA, places=[f"{place.folder}/none/nccl.conf", str(place.home)])
    assert place.home.read_text() == OURS
    assert "NCCL_IB_HCA" not in written.added


def test_nccl_looks_in_etc_and_in_the_home_of_the_account() -> None:
    assert nccl_places("/home/me/", "/state", replay=False) == ["/etc/nccl.conf", "/home/me/.nccl.conf"]
    assert nccl_places(None, "/state", replay=False) == ["/etc/nccl.conf"]
    assert nccl_places("/home/me", "/state", replay=True) == ["/state/nccl.conf"]
    assert nccl_places("/home/me", None, replay=True) == []


def test_both_files_of_the_user_count_and_that_of_the_home_wins(tmp_path: Path) -> None:
    for name in ("etc", "home/me"):
        (tmp_path / name).mkdir(parents=True)
    etc, home, root = tmp_path / "etc/nccl.conf", tmp_path / "home/me/.nccl.conf", Live(str(tmp_path))
    assert users_nccl_conf(root, "/home/me") == {}
    etc.write_text("# a comment=1\nNCCL_DEBUG=WARN\nNCCL_IB_HCA==mlx5_1\n")
    assert users_nccl_conf(root, None) == {"NCCL_DEBUG": "WARN", "NCCL_IB_HCA": "=mlx5_1"}
    home.write_text(THEIRS)
    assert users_nccl_conf(root, "/home/me") == {"NCCL_DEBUG": "WARN", "NCCL_IB_HCA": "=mlx5_7"}
    home.write_text("NCCL_IB_TC=106\n")
    assert users_nccl_conf(root, "/home/me/") == {
        "NCCL_DEBUG": "WARN",
        "NCCL_IB_HCA": "=mlx5_1",
        "NCCL_IB_TC": "106",
    }
    etc.write_text(OURS)
    home.write_text(OURS)
    assert users_nccl_conf(root, "/home/me") == {}


@pytest.mark.parametrize("path", ["/home/me/.nccl.conf", "/etc/nccl.conf"])
def test_what_the_user_wrote_there_is_not_planned_anew(tmp_path: Path, path: str) -> None:
    folder, _, name = path.rpartition("/")
    text = (MACHINES / "hgx-h100-ib" / "tree.txt").read_text()
    planned = []
    for more in ("", f"{folder}\n  {name} = NCCL_IB_HCA==mlx5_1\n"):
        (tmp_path / "tree.txt").write_text(text + more)
        seen = look(Settings(root=str(tmp_path / "tree.txt")), {}, account="/home/me")
        planned.append({one.name: one.source for one in seen.plan.nccl})
    before, after = planned
    assert before["NCCL_IB_HCA"] == "detection"
    assert after.get("NCCL_IB_HCA") != "detection"


def test_a_pipe_in_the_place_of_nccl_conf_is_not_waited_for(place: Place) -> None:
    os.mkfifo(place.etc)
    place.write(Setting("NCCL_IB_HCA", "=mlx5_0", "detection", "x"))
    assert place.home.read_text().endswith("NCCL_IB_HCA==mlx5_0\n")

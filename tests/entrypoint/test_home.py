"""Any user gets a name, a home and caches that can be written; what works already stays as it is."""

import os
from pathlib import Path

import pytest

from entrypoint.home import CACHES, Home, prepare_home

ROOT_LINE = "root:x:0:0:root:/root:/bin/bash\n"


class Place:
    def __init__(self, folder: Path) -> None:
        self.home, self.state, self.passwd = folder / "home", folder / "state", folder / "passwd"
        self.home.mkdir()
        self.state.mkdir()
        self.passwd.write_text(ROOT_LINE)
        self.file = folder / "file"
        self.file.write_text("")

    def prepare(self, uid: int = 12345, gid: int = 0, state: bool = True, **environ: str) -> Home:
        return prepare_home(environ, uid, gid, str(self.state) if state else None, str(self.passwd))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_user_of_the_image_is_left_alone(place: Place) -> None:
    made = place.prepare(uid=0, HOME=str(place.home), USER="root", LOGNAME="root")
    assert made == Home({}, (), "/root")
    assert place.passwd.read_text() == ROOT_LINE


def test_an_unknown_user_gets_a_name_and_an_entry(place: Place) -> None:
    made = place.prepare(HOME=str(place.home))
    assert made.changes == {"USER": "user", "LOGNAME": "user"}
    assert place.passwd.read_text() == f"{ROOT_LINE}user:x:12345:0:added by rig:{place.home}:/bin/bash\n"
    again = place.prepare(HOME=str(place.home))
    assert again.changes["USER"] == "user"
    assert place.passwd.read_text().count("12345") == 1
    assert place.prepare(uid=777, HOME=str(place.home)).changes["USER"] == "user777"


def test_an_entry_begins_its_own_line(place: Place) -> None:
    place.passwd.write_text(ROOT_LINE.rstrip("\n"))
    place.prepare(HOME=str(place.home))
    assert place.passwd.read_text().startswith(ROOT_LINE + "user:")


@pytest.mark.parametrize("home", ["", "/", "{file}", "{file}/x"])
def test_a_home_that_cannot_be_written_is_replaced(place: Place, home: str) -> None:
    told = home.format(file=place.file)
    made = place.prepare(HOME=told)
    assert made.changes["HOME"] == f"{place.state}/home"
    assert os.path.isdir(made.changes["HOME"])
    assert made.lines == (f"HOME={told or 'not set'} cannot be written: HOME={place.state}/home",)
    assert f":{place.state}/home:" in place.passwd.read_text()


def test_caches_move_only_where_their_place_cannot_be_written(place: Place) -> None:
    (place.home / ".cache").write_text("")
    made = place.prepare(HOME=str(place.home), HF_HOME="/data/hf")
    assert made.changes["XDG_CACHE_HOME"] == f"{place.state}/cache"
    assert made.changes["TORCH_EXTENSIONS_DIR"] == f"{place.state}/cache/torch_extensions"
    assert "HF_HOME" not in made.changes
    assert "TRITON_CACHE_DIR" not in made.changes
    assert all(os.path.isdir(made.changes[name]) for name, _, _ in CACHES if name in made.changes)


def test_without_any_place_it_is_said_and_nothing_is_changed(place: Place) -> None:
    made = place.prepare(state=False, HOME=f"{place.file}/x")
    assert made.lines == (f"HOME={place.file}/x cannot be written, and no other place can",)
    assert set(made.changes) == {"USER", "LOGNAME"}


def test_a_home_that_would_break_the_file_is_not_entered(place: Place) -> None:
    strange = place.home / "a:b"
    strange.mkdir()
    assert place.prepare(HOME=str(strange)).account is None
    assert place.passwd.read_text() == ROOT_LINE

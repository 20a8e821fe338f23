"""Files go where they can, never through somebody else's folder, and never by halves."""

import os
from pathlib import Path

import pytest

from entrypoint import state
from entrypoint.state import find_state, write_file

ME = os.geteuid()


@pytest.fixture
def no_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """/run/rig cannot be made: its parent is a file."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(state, "SHARED", str(tmp_path / "file" / "rig"))
    return tmp_path


def test_the_user_s_folder_comes_first(tmp_path: Path) -> None:
    told = str(tmp_path / "mine")
    assert find_state({}, ME, told).folder == told
    assert (tmp_path / "mine").is_dir()


def test_the_runtime_folder_is_next_and_closed_to_others(no_shared: Path) -> None:
    found = find_state({"XDG_RUNTIME_DIR": str(no_shared)}, ME)
    assert found.folder == f"{no_shared}/rig"
    assert (no_shared / "rig").stat().st_mode & 0o777 == 0o700


def test_a_link_is_not_followed(no_shared: Path) -> None:
    (no_shared / "elsewhere").mkdir()
    (no_shared / "rig").symlink_to(no_shared / "elsewhere")
    found = find_state({"XDG_RUNTIME_DIR": str(no_shared)}, ME)
    assert found.folder != f"{no_shared}/rig"
    assert any("is not a folder" in line for line in found.refused)
    assert not list((no_shared / "elsewhere").iterdir())


def test_a_folder_of_somebody_else_is_refused(no_shared: Path) -> None:
    (no_shared / "rig").mkdir()
    found = find_state({"XDG_RUNTIME_DIR": str(no_shared)}, ME + 1)
    assert found.refused[0] == f"{no_shared}/rig belongs to user {ME}"


def test_a_folder_that_others_could_read_is_closed(no_shared: Path) -> None:
    (no_shared / "rig").mkdir(mode=0o755)
    find_state({"XDG_RUNTIME_DIR": str(no_shared)}, ME)
    assert (no_shared / "rig").stat().st_mode & 0o777 == 0o700


def test_a_file_replaces_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")
    with path.open() as reader:
        assert write_file(str(path), "new" * 100000) is None
        assert reader.read() == "old"
    assert path.read_text() == "new" * 100000
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "plan.json").mkdir()
    assert write_file(str(tmp_path / "plan.json"), "x") is not None
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]
    assert write_file(str(tmp_path / "none" / "plan.json"), "x") == "No such file or directory"


def test_a_link_that_waits_at_the_temporary_name_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    guessed = tmp_path / "plan.json.1"
    guessed.symlink_to(victim)
    monkeypatch.setattr(state, "fresh_name", lambda path: str(guessed))
    assert write_file(str(tmp_path / "plan.json"), "x") == "File exists"
    assert victim.read_text() == "mine"
    assert guessed.is_symlink()  # not ours, so it is not removed either


def test_two_writers_of_one_file_never_share_a_temporary_name(tmp_path: Path) -> None:
    names = {state.fresh_name(str(tmp_path / "plan.json")) for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith(f"{tmp_path}/plan.json.") for name in names)


def test_a_place_that_was_named_is_made_with_all_above_it(tmp_path: Path) -> None:
    told = str(tmp_path / "no" / "such" / "place")
    assert find_state({}, ME, told) == state.State(told)
    assert os.path.isdir(told)


def test_a_place_that_was_named_and_cannot_be_is_no_other_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for told, why in ((f"{tmp_path}/file/x", "Not a directory"), (f"{tmp_path}/file", "is not a folder")):
        assert find_state({}, ME, told) == state.State(None, unfit=f"RIG_STATE={told}: {why}")


def test_a_link_that_was_named_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert find_state({}, ME, f"{tmp_path}/link").folder == f"{tmp_path}/link"

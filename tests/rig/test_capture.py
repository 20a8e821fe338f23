"""A capture says what the machine said: in the recording, in the text, behind replaced names, and as a folder."""

import os
from pathlib import Path

import pytest

from entrypoint import capture as verb
from rig.capture import Recorder, record_more, reduced
from rig.capture_text import render
from rig.captured import AT_MOST, Captured, Tree, open_root, parse
from rig.detect import detect
from rig.root import IPV4_FILE, Live
from tests.machines.paper import Paper
from tests.rig.captured_machines import MACHINES, NAMES, machine_of, shape


def unpack(source: Tree, folder: Path) -> None:
    """The tree as real files and relative links. What refuses is a folder: not even root can read or open one."""
    for path in source.children:
        (folder / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for path, target in source.links.items():
        os.symlink(os.path.relpath(target, os.path.dirname(path)), folder / path[1:])
    for path in (*source.refused, *(path for path, opens in source.opens.items() if not opens)):
        (folder / path[1:]).mkdir(exist_ok=True)
    for path, text in source.texts.items():
        (folder / path[1:]).write_text(text)
    for path, blob in source.blobs.items():
        (folder / path[1:]).write_bytes(blob)
    for path, names in source.children.items():
        for name in names:
            place = folder / f"{path}/{name}".lstrip("/")
            if not os.path.lexists(place):
                place.touch()


@pytest.mark.parametrize("name", ["aws-p4d-efa", "dgx-a100", "nothing", "pod-sriov-vfs", "rtx4090-no-p2p"])
def test_a_folder_is_the_same_machine_as_its_capture(name: str, tmp_path: Path) -> None:
    captured = machine_of(name)
    unpack(captured.tree, tmp_path)
    from_text = detect(captured, ask_driver=False)
    from_folder = detect(Live(str(tmp_path)), ask_driver=False)
    shm = from_text.limits  # a folder's file system has a size of its own
    limits = from_folder.limits._replace(shm_bytes=shm.shm_bytes, shm_free_bytes=shm.shm_free_bytes)
    assert from_folder._replace(limits=limits) == from_text


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_replays_as_the_machine(name: str) -> None:
    recorder = Recorder(machine_of(name))
    machine = detect(recorder)
    record_more(recorder, machine)
    text = render(recorder.tree)
    assert len(text) < 100_000
    assert detect(Captured(parse(text))) == machine


@pytest.mark.parametrize("name", ["vm-flat-pci"])
def test_a_recording_of_a_folder_replays_too(name: str, tmp_path: Path) -> None:
    unpack(machine_of(name).tree, tmp_path)
    recorder = Recorder(Live(str(tmp_path)))
    machine = detect(recorder)
    assert detect(Captured(parse(render(recorder.tree)))) == machine


def test_what_nobody_needs_is_left_out() -> None:
    assert reduced("/proc/bus/pci/devices", "1b00\t10de2330\t5e\tfb000000\n") == "1b00\t10de2330\n"
    mounts = "overlay / overlay rw,lowerdir=/x 0 0\nnfs:/home /home nfs rw 0 0\n"
    assert reduced("/proc/self/mounts", mounts) == "overlay / overlay rw 0 0\n"
    assert reduced("/boot/config-6.8.0", "CONFIG_A=y\nCONFIG_PCI_P2PDMA=y\n") == "CONFIG_PCI_P2PDMA=y\n"
    assert reduced("/anything/else", "x") == "x"


def test_a_refusal_is_recorded_and_a_missing_file_is_not(tmp_path: Path) -> None:
    (tmp_path / "sys/refused").mkdir(parents=True)
    recorder = Recorder(Live(str(tmp_path)))
    assert recorder.read("/sys/refused") is None and recorder.read("/sys/missing") is None
    assert "  refused !\n" in render(recorder.tree) and "missing" not in render(recorder.tree)


def test_config_space_is_recorded_in_the_bytes_that_were_asked(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/config").write_bytes(bytes(range(256)) * 16)
    recorder = Recorder(Live(str(tmp_path)))
    assert recorder.peek("/sys/config", 0x100, 8) == bytes(range(8))
    assert recorder.peek("/sys/config", 0x148, 4) == bytes(range(0x48, 0x4C))
    again = Captured(parse(render(recorder.tree)))
    assert again.peek("/sys/config", 0x100, 8) == bytes(range(8))
    assert again.peek("/sys/config", 0, 8) == bytes(8)  # nobody asked


# --- the verb


def test_the_verb_writes_a_file_that_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = MACHINES / "hgx-h100-ib" / "tree.txt", tmp_path / "out.txt"
    assert verb.run([str(target), "--root", str(source)]) == 0
    assert "bytes" in capsys.readouterr().err
    assert shape(detect(Captured(str(target)))) == shape(detect(Captured(str(source))))
    assert os.listdir(tmp_path) == ["out.txt"]
    assert verb.run(["-", "--root", str(source), "--no-driver"]) == 0
    assert capsys.readouterr().out.startswith("rig-capture 1\n")


def test_the_verb_tells_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(MACHINES / "nothing" / "tree.txt")
    assert verb.run([str(tmp_path / "no" / "folder"), "--root", source]) == 1
    assert verb.run(["--root", str(tmp_path / "missing")]) == 64
    assert verb.run(["--root", str(tmp_path)]) == 64
    assert verb.run(["--wrong"]) == 64
    told = capsys.readouterr().err
    assert "No such file" in told and "neither sys nor proc" in told and os.listdir(tmp_path) == []


def test_a_root_is_a_folder_or_a_capture(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    assert isinstance(open_root(str(tmp_path)), Live)
    assert isinstance(open_root(str(MACHINES / "nothing" / "tree.txt")), Captured)
    (tmp_path / "bad").write_bytes(b"\xff\xfe\0")
    with pytest.raises(ValueError, match="bad:1: not a capture"):
        open_root(str(tmp_path / "bad"))
    (tmp_path / "deep").write_text(f"rig-capture 1\n/a\n  b -> {'/a' * 3000}\n/a/b\n  c = 1\n")
    with pytest.raises(ValueError, match="deep:3: the path is too deep"):
        open_root(str(tmp_path / "deep"))


def test_what_is_no_file_of_a_captures_size_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (str(tmp_path / "pipe"), "/dev/zero"):
        with pytest.raises(ValueError, match=f"^{path}: not a regular file; copy"):
            open_root(path)
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", AT_MOST + 1)
    with pytest.raises(ValueError, match="sparse: larger than 16 MiB"):
        open_root(str(tmp_path / "sparse"))
    with pytest.raises(ValueError, match="none: No such file"):
        open_root(str(tmp_path / "none"))


def test_addresses_are_kept_beside_the_kernels_files() -> None:
    paper = Paper()
    paper.netdev("eth0", ipv4="192.0.2.1/24")
    assert Captured(paper.done()).ipv4() == "eth0 192.0.2.1/24\n" == paper.tree.texts[IPV4_FILE]

"""File systems and what is in them: a child that asks, mounts, drives, RAIDs, ssh's permissions."""

import os
import stat
import time
from pathlib import Path

import pytest

from rig import child
from rig.captured import Captured, parse
from rig.detect import storage, storage_child
from rig.host import Mount, Raid, SshFile
from rig.root import Answered, Collected, Live

MOUNTINFO = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 0:50 / / ro,relatime master:1 - overlay overlay rw,lowerdir=/a
30 27 0:27 / /dev/shm rw,nosuid,nodev,noexec,relatime - tmpfs shm rw,size=65536k
31 27 8:1 / /data rw,relatime - ext4 /dev/sda1 rw
32 31 0:40 / /data/my\\040data rw,relatime - nfs4 server:/x ro,vers=4.2
33 27 0:41 / /tmp rw,noexec - tmpfs first rw
34 33 0:42 / /tmp rw - tmpfs second rw
broken line
"""
TREE = """rig-capture 1
/proc/self
  cwd -> /data
/data
  + train.py
$ ok rig-storage --ssh /root /data /root /tmp /cache /dev/shm /
    asking /root
    mode key 644 0 /root/.ssh/id_rsa
    asking /data
    space 1000 400 100 60 1 /data
    asking /root
    space 500 20 0 0 0 /root
    end
"""
ENVIRON = {"HOME": "/root/", "TMPDIR": "/tmp", "HF_HOME": "/cache", "TORCH_HOME": "relative"}


def captured(text: str) -> Captured:
    return Captured(parse(text))


def test_mountinfo_as_the_kernel_writes_it() -> None:
    rows = storage.parse_mountinfo(MOUNTINFO)
    assert [row.point for row in rows] == ["/proc", "/", "/dev/shm", "/data", "/data/my data", "/tmp", "/tmp"]
    assert rows[1] == ("/", "overlay", True, False)
    assert rows[2] == ("/dev/shm", "tmpfs", False, True)
    assert rows[4].read_only  # the file system is, though the mount is not
    assert storage.parse_mountinfo(None) == ()


@pytest.mark.parametrize(
    ("path", "point"),
    [
        ("/data/a", "/data"),
        ("/workshop", "/"),
        ("/data/my data/x", "/data/my data"),
        ("/", "/"),
        ("/dev/shm", "/dev/shm"),
    ],
)
def test_a_path_belongs_to_the_deepest_mount(path: str, point: str) -> None:
    row = storage.mount_of(path, storage.parse_mountinfo(MOUNTINFO))
    assert row is not None and row.point == point


def test_the_last_mount_of_a_point_covers_the_others() -> None:
    row = storage.mount_of("/tmp/x", storage.parse_mountinfo(MOUNTINFO))
    assert row is not None and not row.no_exec


def test_places_are_the_work_folder_first_and_what_variables_name() -> None:
    assert storage.places(captured(TREE), ENVIRON) == (
        *("/data", "/root", "/tmp", "/cache", "/root/.cache", "/root/.triton", "/", "/dev/shm"),
    )
    assert storage.places(captured("rig-capture 1\n"), {"PWD": "/here"})[0] == "/here"


def test_what_the_child_said_meets_the_mounts() -> None:
    text = TREE.replace("/cache /dev/shm /\n", "/cache /root/.cache /root/.triton / /dev/shm\n")
    text += "/proc/self\n  mountinfo |\n" + "".join(
        f"    {line}\n" for line in MOUNTINFO.replace("\\", "\\\\").splitlines()
    )
    root = captured(text)
    facts = storage.read_storage(root, storage.start(root, ENVIRON))
    found = {mount.path: mount for mount in facts.mounts}
    assert found["/data"] == Mount("/data", 1000, 400, "ext4", False, True, 100, 60, False)
    assert found["/root"] == Mount("/root", 500, 20, "overlay", True, False, None, None, False)
    assert found["/cache"] == Mount("/cache", None, None, "overlay", True, None, None, None, False)
    assert found["/dev/shm"].no_exec
    assert facts.ssh_files == (SshFile("/root/.ssh/id_rsa", "key", 0o644, 0),)
    assert facts.silent_mounts == ()


def test_where_nobody_was_asked_nothing_is_known() -> None:
    root = captured("rig-capture 1\n")
    facts = storage.read_storage(root, storage.start(root, ENVIRON))
    assert facts == storage.StorageFacts((), None, None, None, None, None)


def test_a_path_that_did_not_answer_is_named() -> None:
    said = "asking /data\nspace 1000 400 100 60 1 /data\nasking /nfs\n"
    spaces, _, silent = storage.parse_answer(Collected("hung", said))
    assert (list(spaces), silent) == (["/data"], "/nfs")
    assert storage.parse_answer(Collected("hung", said + "end\n"))[2] is None
    assert storage.parse_answer(Collected("failed", said))[2] is None
    asked = storage.Asked(Answered(Collected("hung", said)), ("/data", "/nfs"))
    mounts, _, names = storage.read_mounts(asked, None)
    assert names == ("/nfs",) and mounts[1] == Mount("/nfs")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "space",
        "space 1 2 3 4 1",
        "mode key 9 0 /x",
        "mode key 644 x /x",
        "mode key",
        "mode key 644 -1 /x",
        "spice 1",
    ],
)
def test_garbage_is_left_out(line: str) -> None:
    assert storage.parse_answer(Collected("ok", line + "\n"))[:2] == ({}, ())


def test_numbers_that_cannot_be_are_unknown() -> None:
    spaces, _, _ = storage.parse_answer(Collected("ok", "space -1 x 10 99999999999999999999 2 /a b\n"))
    assert spaces["/a b"] == Mount("/a b", None, None, None, None, None, 10, None)


def test_drives_raids_and_noted_errors() -> None:
    root = captured(
        "rig-capture 1\n"
        "/sys/class/nvme/nvme0\n  state = live\n"
        "/sys/class/nvme/nvme1\n  state = dead\n"
        "/sys/class/nvme/nvme2\n  model = x\n"
        "/sys/block/md0/md\n  degraded = 1\n  raid_disks = 4\n"
        "/sys/block/md1/md\n  level = raid0\n"
        "/sys/block/sda\n  size = 100\n"
        "/sys/fs/ext4/sda1\n  errors_count = 3\n"
        "/sys/fs/ext4/features\n  lazy_itable_init = supported\n"
    )
    assert storage.read_nvme(root) == (("nvme0", "live"), ("nvme1", "dead"), ("nvme2", None))
    assert storage.read_raids(root) == (Raid("md0", 1, 4),)
    assert storage.read_fs_errors(root) == (("sda1", 3),)


# --- the program


def test_the_program_asks_real_file_systems(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir(mode=0o700)
    for name, mode in (("id_rsa", 0o644), ("id_rsa.pub", 0o644), ("authorized_keys", 0o600), ("config", 0o600)):
        (tmp_path / ".ssh" / name).write_text("")
        (tmp_path / ".ssh" / name).chmod(mode)
    answer = child.start(("rig-storage", "--ssh", str(tmp_path), str(tmp_path / "not" / "yet")), 10).collect()
    spaces, files, silent = storage.parse_answer(answer)
    mount = spaces[str(tmp_path / "not" / "yet")]
    told = os.statvfs(tmp_path)
    assert (answer.state, silent, mount.writable) == ("ok", None, True)
    assert mount.total_bytes == told.f_blocks * told.f_frsize and (mount.free_bytes or 0) > 0
    assert {(Path(one.path).name, one.kind, one.mode) for one in files[1:]} == {
        (".ssh", "folder", 0o700),
        ("id_rsa", "key", 0o644),
        ("authorized_keys", "authorized", 0o600),
    }
    assert files[0].kind == "home" and {one.owner for one in files} == {os.geteuid()}


def test_a_folder_that_cannot_be_written_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "access", lambda path, rights: not rights & os.W_OK)
    line = storage_child.space(str(tmp_path))
    assert line is not None and line.split()[5] == "0"


def test_a_place_that_statvfs_refuses_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> os.statvfs_result:
        raise PermissionError

    monkeypatch.setattr(os, "statvfs", refuse)
    assert list(storage_child.lines(["/"])) == ["asking /", "end"]


def test_a_folder_that_is_not_there_is_told_apart(tmp_path: Path) -> None:
    here, gone = str(tmp_path), str(tmp_path / "a" / "b")
    said = list(storage_child.lines([here, gone]))
    assert [line for line in said if line.startswith("absent")] == [f"absent {gone}"]
    mounts, _, silent = storage.parse_answer(Collected("ok", "\n".join(said)))
    assert (mounts[here].exists, mounts[gone].exists, silent) == (None, False, None)


def test_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert storage_child.existing(str(tmp_path / "a" / "b")) == str(tmp_path)
    assert storage_child.existing("relative/x") == "/"


def test_a_home_without_ssh_tells_no_modes(tmp_path: Path) -> None:
    assert stat.S_ISDIR(tmp_path.stat().st_mode) and list(storage_child.modes(str(tmp_path))) == []


def test_a_file_system_that_never_answers_is_named_in_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "hangs.py"
    program.write_text(
        "import sys, time\n"
        "for path in sys.argv[1:]:\n"
        "    print(f'asking {path}', flush=True)\n"
        "    if path == '/dev/shm': time.sleep(60)\n"
        "    print(f'space 10 5 10 5 1 {path}', flush=True)\n"
    )
    monkeypatch.setitem(child.OWN, "rig-storage", str(program))
    monkeypatch.setattr(storage, "TIMEOUT_S", 1.0)
    began = time.monotonic()
    root = Live()
    facts = storage.read_storage(root, storage.start(root, {}))
    assert time.monotonic() - began < 4
    assert facts.silent_mounts == ("/dev/shm",)
    assert {one.path for one in facts.mounts if one.total_bytes == 10} >= {"/", "/tmp"}

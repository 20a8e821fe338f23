"""Fixtures of the family storage."""

from tests.checks.healthy_system import HOME, MOUNTS, WORK
from tests.checks.snapshots import h100, no_gpu, roce
from tests.checks.twin import Twin, changed

GIB, MIB = 1 << 30, 1 << 20
TINY = HOME._replace(path="/tmp", kind="tmpfs", total_bytes=4096, free_bytes=4096)
READ_ONLY = tuple(one._replace(read_only=True, writable=False) if one.kind == "overlay" else one for one in MOUNTS)
# docker run --read-only --tmpfs /tmp:exec -v volume:/data: nothing is wrong with that
READ_ONLY_WELL = tuple(
    one._replace(kind="tmpfs", read_only=False, writable=True, total_bytes=8 * GIB, free_bytes=8 * GIB)
    if one.path == "/tmp"
    else one
    for one in READ_ONLY
)

TWINS = (
    Twin(
        "file_systems_answer",
        changed(h100(), host__silent_mounts=("/data",)),
        h100(),
        says="/data does not answer",
        fix="umount",
        domain="host",
    ),
    Twin(
        "disk_has_room",
        changed(h100(), host__mounts__0__free_bytes=50 * GIB),
        h100(),
        says="/data: 50.0 of 7000.0 GiB are free",
        fix="-v",
        domain="user",
        outcome="warn",
    ),
    Twin(  # 200 GiB are enough, though less than 5 %
        "disk_has_room",
        changed(no_gpu(), host__mounts__0__free_bytes=500 * MIB),
        changed(no_gpu(), host__mounts__0__free_bytes=200 * GIB),
        says="0.5 of 7000.0 GiB",
        fix="Delete old checkpoints",
        domain="user",
    ),
    Twin(
        "disk_has_room",
        changed(no_gpu(), host__mounts__0=WORK._replace(total_bytes=None, free_bytes=None, writable=None)),
        changed(no_gpu(), host__mounts=READ_ONLY_WELL),
        says="/data",
        fix="",
        domain="user",
        outcome="unknown",
    ),
    Twin(
        "inodes_are_left",
        changed(h100(), host__mounts__0__inodes_free=20_000),
        changed(h100(), host__mounts__0__inodes_total=None, host__mounts__0__inodes_free=None),  # btrfs
        says="20000 of 700000000 inodes",
        fix="Delete small files",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "inodes_are_left",
        changed(h100(), host__mounts__0__inodes_free=0),
        h100(),
        says="0 of 700000000",
        fix="Delete small files",
        domain="user",
    ),
    Twin(
        "checkpoint_fits_beside_the_program",
        changed(h100(), host__mounts__0__free_bytes=150 * GIB),
        h100(),
        says="150 GiB free",
        fix="-v",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "temporary_files_can_be_written",
        changed(no_gpu(), host__mounts=READ_ONLY),
        changed(no_gpu(), host__mounts=READ_ONLY_WELL),
        says="/tmp is read-only",
        fix="--tmpfs /tmp",
        domain="user",
    ),
    Twin(
        "temporary_files_can_be_written",
        changed(
            no_gpu(), environ__TMPDIR="/data/", host__mounts=(*MOUNTS, WORK._replace(path="/data", writable=False))
        ),
        changed(no_gpu(), environ__TMPDIR="/data", host__mounts=READ_ONLY),
        says="/data cannot be written by this user",
        fix="TMPDIR",
        domain="user",
    ),
    Twin(
        "temporary_files_can_be_written",
        changed(no_gpu(), environ__TMPDIR="/nope", host__mounts=(*MOUNTS, HOME._replace(path="/nope", exists=False))),
        changed(no_gpu(), environ__TMPDIR="/nope", host__mounts=(*MOUNTS, HOME._replace(path="/nope"))),
        says="TMPDIR=/nope does not exist",
        fix="mkdir -p /nope",
        domain="user",
        outcome="warn",
    ),
    Twin(  # then /tmp is what counts
        "temporary_files_can_be_written",
        changed(
            no_gpu(), environ__TMPDIR="/nope", host__mounts=(*READ_ONLY, HOME._replace(path="/nope", exists=False))
        ),
        no_gpu(),
        says="/tmp is read-only",
        fix="TMPDIR",
        domain="user",
    ),
    Twin(  # nothing stands there, and the root could be written
        "temporary_files_can_be_written",
        changed(no_gpu(), host__mounts__3__exists=False),
        no_gpu(),
        says="/tmp does not exist",
        fix="mkdir -m 1777 /tmp",
        domain="user",
    ),
    Twin(  # --tmpfs /tmp:size=4k
        "temporary_files_have_room",
        changed(no_gpu(), host__mounts=(*MOUNTS[:3], TINY)),
        changed(no_gpu(), host__mounts=(*MOUNTS[:3], TINY._replace(total_bytes=GIB, free_bytes=GIB))),
        says="/tmp: 0.0041 MB are free",
        fix="size=8g",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "work_folder_can_be_written",
        changed(roce(), host__mounts__0__writable=False),
        roce(),
        says="the work folder /data cannot be written by this user",
        fix="--user",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "caches_can_be_written",
        changed(roce(), environ__HF_HOME="/", host__mounts__2__writable=False),
        changed(roce(), environ__HOME="/", host__mounts__2__writable=False),  # home_can_be_written says it
        says="HF_HOME=/ cannot be written",
        fix="a folder of your own",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "compiled_code_can_be_loaded",
        changed(roce(), environ__TRITON_CACHE_DIR="/dev/shm"),
        changed(roce(), environ__TRITON_CACHE_DIR="/tmp"),
        says="TRITON_CACHE_DIR=/dev/shm is mounted noexec",
        fix=":exec",
        domain="user",
        outcome="warn",
    ),
    Twin(  # only the cache is mounted so, or only what holds no libraries
        "compiled_code_can_be_loaded",
        changed(roce(), host__mounts=(*MOUNTS, MOUNTS[1]._replace(path="/root/.triton", no_exec=True))),
        changed(roce(), environ__HF_HOME="/dev/shm", environ__TMPDIR="/dev/shm"),
        says="/root/.triton is mounted noexec",
        fix="--tmpfs FOLDER:exec",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "compiled_code_is_kept_on_this_machine",
        changed(roce(), environ__TRITON_CACHE_DIR="/root", host__mounts__1__kind="nfs4"),
        changed(  # a shared home with hub cache is good
            roce(),
            environ__HF_HOME="/root",
            environ__TRITON_CACHE_DIR="/tmp",
            environ__TORCH_EXTENSIONS_DIR="/tmp",
            host__mounts__1__kind="nfs4",
        ),
        says="on a nfs4 file system",
        fix="TRITON_CACHE_DIR",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "work_folder_is_on_a_disk",
        changed(roce(), host__mounts__0__kind="tmpfs"),
        roce(),
        says="/data is a tmpfs",
        fix="-v",
        domain="user",
        outcome="warn",
    ),
)

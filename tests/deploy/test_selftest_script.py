"""What rig-selftest.service runs, with a stand-in for docker: flags, files, the line on the console, exit code."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from factory.run import run_flags

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "rig-selftest"
# Finds the folder that is mounted at /out, and leaves there what `rig check` was told to write.
CLIENT = """#!/bin/sh
echo "$*" >>{folder}/calls
[ "$1" = run ] || exit 0
for word in "$@"; do case $word in *:/out) out=${{word%:/out}};; esac; done
{script}
"""
WROTE = 'for name in json npd snapshot.json; do echo "told" >"$out/boot.$name"; done; echo 1 >"$out/rig.prom"; '


class Ended(NamedTuple):
    code: int
    console: str
    state: Path
    textfile: Path
    calls: list[list[str]]

    @property
    def flags(self) -> list[str]:
        """The words between `docker run` and the first that the script always adds."""
        [run] = [words for words in self.calls if words[0] == "run"]
        return run[run.index("rig-selftest") + 1 : run.index("--env")]


def selftest(folder: Path, script: str, *devices: str, **environ: str) -> Ended:
    state, textfile, dev = folder / "state", folder / "textfile", folder / "dev"
    for made in (state, textfile, dev):
        made.mkdir()
    for name in devices:
        (dev / name).touch()
    for old in (state / "boot.json", state / "boot.npd", textfile / "rig.prom"):
        old.write_text("of the last boot")
    client = folder / "docker"
    client.write_text(CLIENT.format(folder=folder, script=script))
    client.chmod(0o755)
    told = {"RIG_STATE_DIR": state, "RIG_TEXTFILE_DIR": textfile, "RIG_DOCKER": client, "RIG_DEV": dev, **environ}
    done = subprocess.run(
        ["sh", str(SCRIPT)],
        env={"PATH": os.defpath, **{name: str(value) for name, value in told.items()}},
        capture_output=True,
        text=True,
        timeout=60,
    )
    calls = [line.split() for line in (folder / "calls").read_text().splitlines()]
    return Ended(done.returncode, done.stdout, state, textfile, calls)


@pytest.mark.parametrize("devices", [(), ("nvidiactl",), ("infiniband",), ("nvidiactl", "infiniband")])
def test_the_flags_are_those_of_every_start(tmp_path: Path, devices: tuple[str, ...]) -> None:
    wanted = run_flags(lambda path: path.rpartition("/")[2] in devices)
    assert selftest(tmp_path, WROTE, *devices).flags == wanted


@pytest.mark.parametrize(
    ("code", "line"), [(0, "passed: told"), (1, "FAILED: told; see"), (2, "could not judge: told; see")]
)
def test_the_answer_is_on_the_console_and_in_files(tmp_path: Path, code: int, line: str) -> None:
    done = selftest(tmp_path, f"{WROTE} echo page; exit {code}")
    assert done.code == code
    assert done.console.startswith(f"rig-selftest: {line}") and done.console.count("\n") == 1
    left = {path.name: path.read_text().strip() for path in done.state.iterdir()}
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert left == {
        "boot.json": "told",
        "boot.npd": "told",
        "boot.snapshot.json": "told",
        "boot.txt": "page",
        "boot.code": str(code),
        "boot.id": boot,
    }
    assert [path.name for path in done.textfile.iterdir()] == ["rig.prom"]
    assert (done.textfile / "rig.prom").read_text() == "1\n"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo 'docker: no such image.' >&2; exit 125", "could not judge: docker: no such image."),
        ("echo 'rig check: no level full' >&2; exit 3", "could not judge: rig check: no level full"),
        ("exit 125", "could not judge: docker run ended with 125"),
        ("exit 137", "could not judge: the container was killed"),
        ("exec sleep 60", "could not judge: the container did not end within 1 s"),
    ],
)
def test_without_an_answer_nothing_of_the_last_boot_is_left(tmp_path: Path, script: str, says: str) -> None:
    done = selftest(tmp_path, script, RIG_DEADLINE="1")
    assert done.code == 2
    assert done.console.startswith(f"rig-selftest: {says}")
    assert not (done.state / "boot.json").exists() and not (done.textfile / "rig.prom").exists()
    assert (done.state / "boot.npd").read_text().startswith(says[:60])
    assert (done.state / "boot.code").read_text() == "2\n"


def test_the_kernel_s_log_may_be_read(tmp_path: Path) -> None:
    words = " ".join(next(words for words in selftest(tmp_path, WROTE).calls if words[0] == "run"))
    assert " --cap-add SYSLOG " in words.partition(" rig check ")[0]


@pytest.mark.parametrize("partial", ["true", "false"])
def test_what_a_run_that_was_ended_knew_is_kept_and_an_older_answer_is_not(tmp_path: Path, partial: str) -> None:
    knew = f'{{"partial": {partial}, "results": []}}'
    script = f"""mkdir "$out/state"; echo '{knew}' >"$out/state/checks.json"; exec sleep 60"""
    done = selftest(tmp_path, script, RIG_DEADLINE="1")
    assert done.code == 2 and "--env RIG_STATE=/out/state " in " ".join(done.calls[1])
    left = done.state / "boot.json"
    assert left.read_text().strip() == knew if partial == "true" else not left.exists()


def test_a_container_that_does_not_end_is_removed(tmp_path: Path) -> None:
    done = selftest(tmp_path, "exec sleep 60", RIG_DEADLINE="1")
    assert [words[:3] for words in done.calls if words[0] == "rm"] == [["rm", "--force", "rig-selftest"]] * 2


def test_settings_reach_docker_and_the_checks(tmp_path: Path) -> None:
    done = selftest(
        tmp_path,
        WROTE,
        RIG_IMAGE="mine:1",
        RIG_LEVEL="deep",
        RIG_EXPECT="gpus=8",
        RIG_CHECK_ARGS="--strict --only gpu",
        RIG_DOCKER_ARGS="--runtime=nvidia",
    )
    words = " ".join(next(words for words in done.calls if words[0] == "run"))
    assert "--env RIG_EXPECT=gpus=8 " in words
    assert "--runtime=nvidia mine:1 rig check --level deep " in words
    assert words.endswith("--strict --only gpu")


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = subprocess.run(
        ["sh", str(SCRIPT)],
        env={"PATH": os.defpath, "RIG_STATE_DIR": f"{tmp_path}/file/rig", "RIG_TEXTFILE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stdout.startswith("rig-selftest: could not judge: ")

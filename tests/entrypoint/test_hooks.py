"""Hooks: sourced, run, shown, in the order of their names, and heard when they fail."""

import os
from pathlib import Path

import pytest

from entrypoint.hooks import run_hooks


@pytest.fixture
def hook(tmp_path: Path):  # type: ignore[no-untyped-def]
    folder = tmp_path / "boot.d"
    folder.mkdir()

    def write(name: str, text: str, mode: int = 0o644) -> None:
        (folder / name).write_text(text)
        (folder / name).chmod(mode)

    def run(**environ: str):  # type: ignore[no-untyped-def]
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        told = {"PATH": "/usr/bin:/bin", **environ}
        return run_hooks(told, str(scratch), str(folder))

    write.run, write.scratch = run, tmp_path / "scratch"  # type: ignore[attr-defined]
    return write


def test_what_a_sourced_hook_exports_is_kept(hook) -> None:  # type: ignore[no-untyped-def]
    hook("10-a.sh", "export A='two\nlines' B=b; C=c; unset GONE; export PATH=$PATH:/opt/x")
    hook("20-b.sh", 'export D="$A$B"')
    hooked = hook.run(GONE="x", PWD="/somewhere", HOME="/h")
    environ = {"PATH": "/usr/bin:/bin:/opt/x", "A": "two\nlines", "B": "b", "D": "two\nlinesb"}
    assert hooked.environ == {**environ, "PWD": "/somewhere", "HOME": "/h"}
    assert not hooked.failed
    assert not list(hook.scratch.iterdir())


def test_what_a_hook_exports_passes_through_a_file_of_this_user_only(hook, capfd) -> None:  # type: ignore[no-untyped-def]
    hook("10-a.sh", 'umask 0; stat -c %a "$_rig_out"; export A=1')
    assert hook.run().environ["A"] == "1"
    assert capfd.readouterr().err == "600\n"


def test_a_hook_that_leaves_no_environment_is_named(hook) -> None:  # type: ignore[no-untyped-def]
    hook("10-a.sh", "trap - EXIT; export A=1")
    hooked = hook.run()
    assert "A" not in hooked.environ
    assert [line.rpartition("/")[2] for line in hooked.failed] == ["10-a.sh left no environment behind"]
    assert not list(hook.scratch.iterdir())


def test_a_hook_that_calls_exit_is_heard(hook) -> None:  # type: ignore[no-untyped-def]
    hook("10-a.sh", "export A=1; exit 0")
    hook("20-b.sh", "export B=1; exit 7")
    hooked = hook.run()
    assert hooked.environ["A"] == "1" and "B" not in hooked.environ
    assert [line.rpartition("/")[2] for line in hooked.failed] == ["20-b.sh ended with exit code 7"]
    assert not hooked.fatal


def test_a_hook_s_output_is_not_the_program_s(hook, capfd: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    hook("10-a.sh", "echo from-shell")
    hook("20-b", "#!/bin/sh\necho from-program; cat\n", 0o755)
    hook.run()
    out, err = capfd.readouterr()
    assert (out, err) == ("", "from-shell\nfrom-program\n")


def test_texts_are_shown_and_other_files_are_named(hook) -> None:  # type: ignore[no-untyped-def]
    hook("10-a.txt", "Welcome\nSupport: ops@example.org\n")
    hook("20-readme.md", "x")
    hook(".hidden", "x")
    hook("30-old.sh~", "exit 1")
    hooked = hook.run()
    assert hooked.texts == ("Welcome", "Support: ops@example.org")
    assert [line.rpartition("/")[2] for line in hooked.failed] == ["20-readme.md is neither .sh, .txt nor executable"]


def test_a_required_hook_that_fails_ends_the_boot(hook) -> None:  # type: ignore[no-untyped-def]
    hook("10-license.sh.required", "false")
    hook("20-later.sh", "export LATER=1")
    hooked = hook.run()
    assert hooked.fatal
    assert "LATER" not in hooked.environ


def test_a_required_hook_that_works_is_a_hook(hook) -> None:  # type: ignore[no-untyped-def]
    hook("10-a.sh.required", "export A=1")
    hook("20-b.required", "#!/bin/sh\nexit 0\n", 0o755)
    hooked = hook.run()
    assert not hooked.failed and hooked.environ["A"] == "1"


def test_a_program_that_cannot_run_is_named(hook) -> None:  # type: ignore[no-untyped-def]
    hook("10-a", "#!/no/such/shell\n", 0o755)
    hook("20-b", "#!/bin/sh\nkill -9 $$\n", 0o755)
    first, second = hook.run().failed
    assert "could not be started" in first
    assert second.endswith("was ended by signal 9")


def test_something_left_in_the_background_does_not_hold_the_boot(hook) -> None:  # type: ignore[no-untyped-def]
    hook("10-a.sh", "sleep 3 & export A=1")
    import time

    start = time.monotonic()
    assert hook.run().environ["A"] == "1"
    assert time.monotonic() - start < 2.5


def test_no_folder_means_no_hooks(tmp_path: Path) -> None:
    environ = {"A": "1"}
    assert run_hooks(environ, None, str(tmp_path / "none")).environ is environ


@pytest.mark.parametrize("name", ["10-a.required.sh", "10-a.sh.required"])
def test_required_may_stand_before_the_kind(hook, name: str) -> None:  # type: ignore[no-untyped-def]
    hook(name, "exit 3")
    hook("20-b.sh", "export B=1")
    hooked = hook.run()
    assert hooked.fatal and "B" not in hooked.environ


def test_a_slow_hook_is_named(hook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("entrypoint.hooks.SLOW_S", 0.01)
    hook("10-a.sh", "sleep 0.3; export A=1")
    told: list[str] = []
    hooked = run_hooks({"PATH": "/usr/bin:/bin"}, str(tmp_path), str(tmp_path / "boot.d"), told.append)
    assert hooked.environ["A"] == "1" and len(told) == 1 and "10-a.sh" in told[0]


def test_a_pipe_in_the_place_of_a_hook_is_not_waited_for(hook, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    os.mkfifo(tmp_path / "boot.d" / "10-a.txt")
    assert [line.rpartition("/")[2] for line in hook.run().failed] == ["10-a.txt is no file"]

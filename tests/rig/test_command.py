"""Each row of the entrypoint's table: what the words ask for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.command import CLOSED, FILE, FOLDER, MISSING, PROGRAM, SEALED, Command, classify

FILES = {
    "train.py": FILE,
    "/data/run.py": FILE,
    "sub/train.py": PROGRAM,
    "folder.py": FOLDER,
    "secret.py": CLOSED,
    "notes.sh": FILE,
    "./notes.sh": FILE,
    "./tool": PROGRAM,
    "./closed": CLOSED,
    "./sealed": SEALED,
    "sealed.py": SEALED,
    "/bin/sealed": SEALED,
    "/usr/bin/bash": PROGRAM,
    "/usr/bin/tool.py": PROGRAM,
    "/usr/bin/plain": FILE,
    "/sbin/plain2": CLOSED,
    "/usr/bin": FOLDER,
    "/usr/bin/both": FILE,
    "/bin/both": PROGRAM,
    "./here": PROGRAM,
}


def ask(*argv: str, terminal: bool = False, path: str = "/usr/bin:/bin:/sbin", near: tuple[str, ...] = ()) -> Command:
    return classify(
        argv, terminal=terminal, path=path, look=lambda name: FILES.get(name, MISSING), scripts=lambda: list(near)
    )


@pytest.mark.parametrize("name", ["train.py", "/data/run.py", "sub/train.py"])
def test_a_python_file_that_exists_is_launched(name: str) -> None:
    assert ask(name, "--steps", "3") == Command("script", (name, "--steps", "3"), name)


def test_a_program_on_the_path_is_executed_as_it_is() -> None:
    assert ask("bash", "-c", "exit 3") == Command("exec", ("bash", "-c", "exit 3"), "/usr/bin/bash")
    assert ask("both").path == "/bin/both"
    assert ask("tool.py").path == "/usr/bin/tool.py"
    assert ask("./tool").path == "./tool"


def test_a_program_need_not_be_readable_but_a_script_must() -> None:
    assert ask("./sealed").kind == "exec"
    assert ask("sealed").path == "/bin/sealed"
    assert ask("sealed.py") == Command(
        "refuse", ("sealed.py",), code=126, reason="sealed.py may not be read by this user"
    )


def test_an_empty_entry_of_the_path_is_the_working_folder() -> None:
    assert ask("here", path="/usr/bin:").path == "./here"


def test_rig_is_a_verb_whatever_is_on_the_path() -> None:
    assert ask("rig", "facts") == Command("verb", ("rig", "facts"))


def test_no_words_mean_a_shell_on_a_terminal_and_the_page_elsewhere() -> None:
    assert ask(terminal=True).kind == "shell"
    assert ask(terminal=False).kind == "page"


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("trian.py",), 127, "trian.py does not exist"),
        (("/data/none.py",), 127, "/data/none.py does not exist"),
        (("folder.py",), 126, "folder.py is a folder"),
        (("secret.py",), 126, "secret.py may not be read"),
        (("/nothing",), 127, "/nothing does not exist"),
        (("./notes.sh",), 126, "chmod +x"),
        (("./closed",), 126, "may not be read"),
        (("/usr/bin",), 126, "is a folder"),
        (("nonsense",), 127, "nonsense: command not found"),
        (("notes.sh",), 127, "the file here is ./notes.sh"),
        (("plain",), 126, "/usr/bin/plain may not be executed"),
        (("plain2",), 126, "/sbin/plain2 may not be executed"),
        (("--steps", "3"), 127, "is an option"),
        (("",), 127, "empty"),
    ],
)
def test_what_cannot_start_gets_one_line_and_the_shell_s_code(argv: tuple[str, ...], code: int, words: str) -> None:
    told = ask(*argv)
    assert (told.kind, told.code) == ("refuse", code)
    assert words in told.reason
    assert "\n" not in told.reason


def test_a_missing_script_is_answered_with_those_that_are_there() -> None:
    assert "there is pretrain.py, train.py" in ask("trian.py", near=("pretrain.py", "train.py")).reason
    assert "mounted" in ask("trian.py").reason


@given(st.lists(st.text(min_size=0, max_size=8), max_size=4), st.booleans())
def test_any_words_get_an_answer(argv: list[str], terminal: bool) -> None:
    told = ask(*argv, terminal=terminal)
    assert told.kind in ("script", "exec", "verb", "shell", "page", "refuse")
    assert (told.code != 0) == (told.kind == "refuse")
    assert bool(told.reason) == (told.kind == "refuse")


def test_a_pipe_is_refused_before_anybody_opens_it() -> None:
    for words in (("train.py",), ("./tool",)):
        command = classify(words, terminal=False, path="/bin", look=lambda _: "device", scripts=lambda: [])
        assert (command.kind, command.code) == ("refuse", 126)
        assert "is a pipe or a device" in command.reason

"""What the words after the image's name ask for. Pure: the file system is seen through two questions."""

from rig.lean import Callable, NamedTuple

PLACEHOLDER = "{ds_config}"  # in any command: the path of the generated DeepSpeed config
NOT_FOUND = 127  # as a shell says it
NOT_RUNNABLE = 126

# Answers of `look`: what a path is to this process.
MISSING, FILE, PROGRAM, FOLDER, CLOSED = "missing", "file", "program", "folder", "closed"
DEVICE = "device"  # a pipe, a socket or a device: opening one may wait for ever
SEALED = "sealed"  # may be executed and not be read: a program runs, a script's interpreter cannot read it


class Command(NamedTuple):
    """`kind` is what to do with `argv`:

    "script"  start argv[0], a Python file, once for each GPU
    "exec"    become the program at `path`, argv as given
    "verb"    run argv[1:] as a verb of rig
    "shell"   no words, and a terminal to talk to
    "page"    no words and no terminal
    "refuse"  end with exit code `code`; `reason` is the line to print
    """

    kind: str
    argv: tuple[str, ...] = ()
    path: str = ""
    code: int = 0
    reason: str = ""


def classify(
    argv: tuple[str, ...], *, terminal: bool, path: str, look: Callable[[str], str], scripts: Callable[[], list[str]]
) -> Command:
    """Decide what `argv` asks for.

    `path` is the PATH to search. `look(name)` tells what a file is to this process: "missing", "folder", "closed" (may
    not be read), "program" (readable and executable), "sealed" (executable only), "device" or "file". `scripts()`
    lists the Python files of the working folder, for the message only.
    """
    if not argv:
        return Command("shell" if terminal else "page")
    name = argv[0]
    if name == "rig":
        return Command("verb", argv)
    if not name:
        return Command("refuse", argv, code=NOT_FOUND, reason="the command is empty")
    if name.endswith(".py"):
        return _script(argv, path, look, scripts)
    if "/" in name:
        return _named(argv, look(name))
    return _on_path(argv, path, look)


def _script(argv: tuple[str, ...], path: str, look: Callable[[str], str], scripts: Callable[[], list[str]]) -> Command:
    name = argv[0]
    kind = look(name)
    if kind in (FILE, PROGRAM):
        return Command("script", argv, name)
    if kind == FOLDER:
        return Command("refuse", argv, code=NOT_RUNNABLE, reason=f"{name} is a folder, not a script")
    if kind == DEVICE:
        return Command("refuse", argv, code=NOT_RUNNABLE, reason=f"{name} is a pipe or a device, not a script")
    if kind in (CLOSED, SEALED):
        return Command("refuse", argv, code=NOT_RUNNABLE, reason=f"{name} may not be read by this user")
    if "/" not in name:
        found = _on_path(argv, path, look)
        if found.kind == "exec":
            return found  # tools like accelerate's or Django's carry .py in their name
    near = scripts()
    hint = f"; there is {', '.join(near[:5])}" if near else "; is the folder mounted? (-v $PWD:/workspace)"
    return Command("refuse", argv, code=NOT_FOUND, reason=f"{name} does not exist{hint}")


def _named(argv: tuple[str, ...], kind: str) -> Command:
    name = argv[0]
    if kind in (PROGRAM, SEALED):
        return Command("exec", argv, name)
    if kind == MISSING:
        return Command("refuse", argv, code=NOT_FOUND, reason=f"{name} does not exist")
    known = {FOLDER: "is a folder", CLOSED: "may not be read by this user", DEVICE: "is a pipe or a device"}
    what = known.get(kind, "is not executable: chmod +x")
    return Command("refuse", argv, code=NOT_RUNNABLE, reason=f"{name} {what}")


def _on_path(argv: tuple[str, ...], path: str, look: Callable[[str], str]) -> Command:
    name, closed = argv[0], ""
    for folder in path.split(":"):
        place = f"{folder or '.'}/{name}"
        kind = look(place)
        if kind in (PROGRAM, SEALED):
            return Command("exec", argv, place)
        if kind in (FILE, CLOSED) and not closed:
            closed = place
    if closed:
        return Command("refuse", argv, code=NOT_RUNNABLE, reason=f"{closed} may not be executed by this user")
    if name.startswith("-"):
        reason = f"{name} is an option, not a command: docker's options go before the image, a script's after train.py"
    elif look(name) in (FILE, PROGRAM):
        reason = f"{name}: not found on PATH; the file here is ./{name}"
    else:
        reason = f"{name}: command not found"
    return Command("refuse", argv, code=NOT_FOUND, reason=reason)

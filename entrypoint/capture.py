"""`rig capture`: this machine as one text file that can be read through, sent to somebody, and replayed anywhere."""

import sys

from rig.anonymous import anonymous
from rig.capture import Recorder, record_more
from rig.capture_text import render
from rig.captured import Captured, open_root
from rig.detect import detect
from rig.machine import Machine
from rig.root import Live, Root

USAGE = 64
DEFAULT = "rig-capture.txt"
COMMENTS = (
    "A machine as `rig capture` saw it. Host name, addresses, GUIDs, MACs, UUIDs and ids of containers are replaced:",
    "equal ones stay equal, subnets stay subnets. Read it through before you send it. Replay it: rig facts --root FILE",
)


def capture(root: Root, ask_driver: bool = True) -> tuple[str, list[str]]:
    """The text, and the facts (`gpus`, `limits`) that a replay would not tell as the machine did."""
    recorder = Recorder(root)
    machine = detect(recorder, ask_driver=ask_driver)
    record_more(recorder, machine)
    replayed = detect(Captured(recorder.tree), ask_driver=ask_driver)
    return render(anonymous(recorder.tree), COMMENTS), differences(machine, replayed)


def differences(told: Machine, replayed: Machine) -> list[str]:
    """Names of the fields of Machine in which two looks differ."""
    return [name for name, one, other in zip(Machine._fields, told, replayed, strict=True) if one != other]


def run(argv: list[str]) -> int:
    """Write the file; 0, 64 for wrong usage, 1 where it cannot be written."""
    import argparse

    parser = argparse.ArgumentParser("rig capture", description=run.__doc__)
    where = f"where to write; - is standard output. Default: {DEFAULT}, or standard output where that is no terminal"
    parser.add_argument("file", nargs="?", help=where)
    parser.add_argument("--root", metavar="DIR|FILE", help="another machine: a folder laid out like one, or a capture")
    parser.add_argument("--no-driver", action="store_true", help="do not ask the NVIDIA driver")
    try:
        asked = parser.parse_args(argv)
    except SystemExit as end:
        return USAGE if end.code else 0
    try:
        root = open_root(asked.root) if asked.root else Live()
    except ValueError as error:
        print(f"rig capture: {error}", file=sys.stderr)
        return USAGE
    text, lost = capture(root, not asked.no_driver)
    for name in lost:
        print(f"rig capture: the replay of {name} differs from this machine; please report it", file=sys.stderr)
    return _write(asked.file or (DEFAULT if sys.stdout.isatty() else "-"), text)


def _write(path: str, text: str) -> int:
    if path == "-":
        print(text, end="")  # entrypoint.__main__ tells of what gets lost
        return 0
    from entrypoint.state import write_file

    why = write_file(path, text)
    print(f"rig capture: {path}: {why or f'{len(text.encode())} bytes'}", file=sys.stderr)
    return 0 if why is None else 1

"""Who may import whom, read from the imports themselves (docs/architecture.md)."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
ROOMS = ("rig", "checks", "entrypoint", "factory", "bench")
MAY_IMPORT = {
    "rig": set(),
    "checks": {"rig"},
    "entrypoint": {"rig", "checks"},
    "factory": {"rig"},
    "bench": {"rig", "factory"},
}
# Third-party code that a room may use; the rest is the standard library.
THIRD_PARTY = {
    "rig": {"hjson"},
    # probes run with the user's Python and find these of their own beside them
    "checks": {"pytest", "testinfra", "torch", "deepspeed", "telling", "devices", "ranks", "nccl_log"},
    "entrypoint": set(),
    "factory": {"torch", "deepspeed"},
    "bench": {"torch", "deepspeed", "pytest", "rig"},
}


def modules(room: str) -> list[Path]:
    return sorted(path for path in (CHECKOUT / room).rglob("*.py") if "__pycache__" not in path.parts)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


@pytest.mark.parametrize("room", [room for room in ROOMS if (CHECKOUT / room).is_dir()])
def test_a_room_imports_only_what_it_may(room: str) -> None:
    allowed = MAY_IMPORT[room] | THIRD_PARTY[room] | {room}
    wrong = [
        f"{path.relative_to(CHECKOUT)}: {name}"
        for path in modules(room)
        for name in imports(path)
        if (top := name.partition(".")[0]) not in allowed and top not in sys.stdlib_module_names
    ]
    assert wrong == []


def test_detectors_do_not_import_one_another() -> None:
    wrong = [
        f"{path.name}: {name}"
        for path in modules("rig/detect")
        if path.name != "__init__.py"
        for name in imports(path)
        if name.startswith("rig.detect")
    ]
    assert wrong == []


def test_the_library_neither_prints_nor_exits_nor_reads_the_environment() -> None:
    wrong = []
    for path in modules("rig"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "exit"):
                wrong.append(f"{path.relative_to(CHECKOUT)}:{node.lineno}: {node.func.id}")
            if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv", "sys.exit"):
                wrong.append(f"{path.relative_to(CHECKOUT)}:{node.lineno}: {ast.unparse(node)}")
    # The program that asks the driver is a child process of its own: its one output is what it prints.
    assert [line for line in wrong if "nvml_child" not in line] == []

"""What detection may not do: import much, import its neighbours, touch the driver's nodes, run programs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from rig.captured import Captured
from rig.detect import detect
from rig.root import Running, Space

HERE = Path(__file__).parents[2]
FILES = sorted((HERE / "rig" / "detect").glob("*.py"))
MACHINES = sorted((HERE / "tests" / "machines").glob("*/tree.txt"))
HEAVY = (
    "argparse", "collections", "contextlib", "ctypes", "dataclasses", "enum", "functools", "inspect", "json", "logging",
    "pathlib", "re", "socket", "subprocess", "tempfile", "typing", "zlib",
)  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_subsystem_imports_another(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    assert path.stem == "__init__" or not [name for name in imported if name.startswith("rig.detect")]


def test_a_detection_imports_little() -> None:
    machine = HERE / "tests" / "machines" / "hgx-h100-ib" / "tree.txt"
    program = (
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "from rig.captured import Captured; from rig.detect import detect\n"
        f"detect(Captured({str(machine)!r})); print(*sys.modules)"
    )
    asked = [sys.executable, "-I", "-S", "-c", program]
    modules = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout.split()
    assert [name for name in HEAVY if name in modules] == []


class Watched(Captured):
    """Notes everything that is asked by path."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.asked: list[str] = []
        self.programs: list[tuple[str, ...]] = []

    def read(self, path: str) -> str | None:
        self.asked.append(path)
        return super().read(path)

    def opens(self, path: str) -> bool | None:
        self.asked.append(path)
        return super().opens(path)

    def peek(self, path: str, offset: int, size: int) -> bytes | None:
        self.asked.append(path)
        return super().peek(path, offset, size)

    def space(self, path: str) -> Space | None:
        assert path == "/dev/shm"
        return super().space(path)

    def run(self, argv: tuple[str, ...], timeout_s: float) -> str | None:
        raise AssertionError(f"{argv} was run")

    def start(self, argv: tuple[str, ...], timeout_s: float) -> Running:
        self.programs.append(argv)
        return super().start(argv, timeout_s)


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.parent.name)
def test_the_drivers_nodes_are_left_to_the_child(path: Path) -> None:
    root = Watched(str(path))
    detect(root)
    assert [asked for asked in root.asked if asked.startswith("/dev/nvidia")] == []
    assert len(root.programs) <= 1
    assert "/proc/cpuinfo" not in root.asked  # opening it makes older kernels measure every CPU's clock


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.parent.name)
def test_few_files_are_read_twice(path: Path) -> None:
    root = Watched(str(path))
    detect(root)
    assert len(root.asked) < 2000  # of which 64 and more for each Ethernet port with its GIDs
    assert len(root.asked) - len(set(root.asked)) <= 30

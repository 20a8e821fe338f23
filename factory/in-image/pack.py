"""Pack the bytecode of rig into one file: `python3 -X no_debug_ranges pack.py /opt/rig` writes /opt/rig/boot.pack.

A boot imports some 60 modules; to find, open and read them one by one costs more than to run them. Docstrings, asserts,
annotations (a record keeps the names of its fields) and, with that option, the columns of tracebacks are left out;
lines and file names stay. entrypoint/packed.py reads it. The sources lie beside it, their own bytecode need not.
"""

import ast
import marshal
import sys
from collections.abc import Iterator, Mapping
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType

ROOMS = ("checks", "entrypoint", "rig")
# Programs of their own, and what pytest reads.
APART = ("checks/probes/", "checks/conftest.py", "checks/remote.py", "checks/test_")
# Of entrypoint: --help shows their docstrings. `rig check --explain` reads a check's from its source.
VERBS = ("capture", "facts", "plan", "platform")
# Modules that functions import in (nearly) every boot, and in every boot with a GPU: each of these groups is read at
# once, with all that it needs. Any other module is read by itself.
TOGETHER = (
    (
        "entrypoint.__main__",
        "entrypoint.boot",
        "entrypoint.look",
        "entrypoint.home",
        "entrypoint.files",
        "entrypoint.judging",
        "entrypoint.page",
        "entrypoint.start",
        "rig.dsconfig",
        "rig.schedulers",
        "checks.driver",
        "checks.gpu",
        "checks.limits",
    ),
    ("rig.plan.nccl", "checks.rdma", "checks.nccl"),
)


class Unannotated(ast.NodeTransformer):
    """The same program without annotations, which would be evaluated at each start."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.copy_location(ast.Constant(None), node.annotation)  # a class keeps the names
        return self.generic_visit(node)


def sources(folder: Path) -> dict[str, Path]:
    """Module name -> file."""
    found = {}
    for path in sorted(path for room in ROOMS for path in (folder / room).rglob("*.py")):
        if str(path.relative_to(folder)).startswith(APART):
            continue
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.Module) -> Iterator[str]:
    """What the top of a module imports, in order; some of the names are no modules."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def compiled(tree: ast.Module, path: Path) -> CodeType:
    shown = path.parent.name == "entrypoint" and path.stem in VERBS
    made = compile(Unannotated().visit(tree), str(path), "exec", dont_inherit=True, optimize=0 if shown else 2)
    assert isinstance(made, CodeType)
    return made


def reach(name: str, needs: Mapping[str, tuple[str, ...]], found: dict[str, None]) -> None:
    """A module, its packages and all that their tops import, into `found`."""
    if name in needs and name not in found:
        found[name] = None
        for other in (name.rpartition(".")[0], *needs[name]):
            reach(other, needs, found)


def shelved(needs: Mapping[str, tuple[str, ...]]) -> list[list[str]]:
    """The modules in the order and the groups in which they are stored."""
    shelves: list[list[str]] = []
    taken: dict[str, None] = {}
    for group in TOGETHER:
        before = len(taken)
        for name in group:
            reach(name, needs, taken)
        shelves.append(list(taken)[before:])
    return [*shelves, *([name] for name in needs if name not in taken)]


def main(folder: Path) -> int:
    files = sources(folder)
    trees = {name: ast.parse(path.read_text(), str(path)) for name, path in files.items()}
    needs = {name: tuple(other for other in imported(tree) if other in files) for name, tree in trees.items()}
    codes = {name: compiled(trees[name], path) for name, path in files.items()}
    body, shelf_of = b"", {}
    for shelf in shelved(needs):
        data = marshal.dumps({name: codes[name] for name in shelf})
        shelf_of.update({name: (len(body), len(data)) for name in shelf})
        body += data
    index = marshal.dumps((codes["entrypoint.packed"], needs, shelf_of))
    (folder / "boot.pack").write_bytes(MAGIC_NUMBER + len(index).to_bytes(4, "little") + index + body)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""Pack the bytecode of everything that a boot may import into one file: pack.py FOLDER writes FOLDER/boot.pack.

A boot imports some 70 modules; finding and opening them one by one costs more than running them. Docstrings, asserts,
columns of tracebacks and annotations are left out (a record keeps the names of its fields); lines and file names stay. The
command `rig` reads the pack where it lies beside the rooms and was made by the same Python. The sources and their own
bytecode lie there too, for every other use.
"""

import ast
import marshal
import sys
from pathlib import Path
from typing import Any

ROOMS = ("entrypoint", "rig", "rig/detect", "rig/plan")
OTHER_VERBS = ("capture", "facts", "plan", "platform")  # they start from the sources' bytecode: --help shows docstrings


class Unannotated(ast.NodeTransformer):
    """The same program without annotations, which are evaluated at import."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.copy_location(ast.Constant(None), node.annotation)  # a class needs it: __annotations__
        self.generic_visit(node)
        return node


def packed(path: Path) -> Any:
    """The code of a module."""
    tree = Unannotated().visit(ast.parse(path.read_text(), str(path)))
    return compile(tree, str(path), "exec", dont_inherit=True, optimize=2)


def main(folder: Path) -> int:
    codes = {}
    for room in ROOMS:
        for path in sorted((folder / room).glob("*.py")):
            if room == "entrypoint" and path.stem in OTHER_VERBS:
                continue
            name = room.replace("/", ".") + ("" if path.stem == "__init__" else f".{path.stem}")
            codes[name] = marshal.dumps(packed(path))
    (folder / "boot.pack").write_bytes(marshal.dumps((sys.hexversion, codes)))
    return 0


if __name__ == "__main__":
    if not sys.flags.no_debug_ranges if hasattr(sys.flags, "no_debug_ranges") else False:
        pass
    sys.exit(main(Path(sys.argv[1])))

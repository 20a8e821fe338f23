"""Which of DeepSpeed's compiled ops can be used here: compatible, built into the image, or built and loaded now.

`ds_report` prints OKAY for ops that cannot be loaded, so those that are installed are imported. With --build CPUAdam,
which every offload needs, is compiled where it is not installed, in a folder of its own that is deleted afterwards: the
time it takes is what a training's first step would wait (170 s on two busy cores, so not at level full).
"""

import contextlib
import importlib
import os
import sys
import time
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from telling import first_line, own_folder, run, tell

COMPILED = "CPUAdamBuilder"


def look(name: str, builder: Any, installed: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"name": builder.NAME, "installed": installed, "loads": None, "seconds": None, "error": None}
    told["compatible"] = bool(builder.is_compatible(verbose=False))
    began = time.monotonic()
    try:
        if installed:
            importlib.import_module(builder.absolute_name())
            told["loads"] = True
        elif name == COMPILED and told["compatible"] and "--build" in sys.argv:
            builder.load(verbose=False)
            told.update(loads=True, seconds=round(time.monotonic() - began, 1))
    except (Exception, SystemExit) as error:  # a compiler's failure, a missing symbol
        told.update(loads=False, error=first_line(error))
    return told


def main() -> None:
    tell(ops=[], asking="import of deepspeed")
    with own_folder("ops") if "--build" in sys.argv else contextlib.nullcontext() as folder:
        if folder is not None:
            os.environ.update(TORCH_EXTENSIONS_DIR=folder, MAX_JOBS="2")
        try:
            from deepspeed.git_version_info import installed_ops
            from deepspeed.ops.op_builder.all_ops import ALL_OPS
        except Exception as error:
            tell(error=first_line(error), asking=None)
            return
        for name, builder in sorted(ALL_OPS.items()):
            tell(asking=f"op {name}")
            tell(ops=[look(type(builder).__name__, builder, bool(installed_ops.get(name)))])
    tell(asking=None)


if __name__ == "__main__":
    run(main)

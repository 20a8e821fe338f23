"""Imports from boot.pack: one file with the bytecode of rig, made by factory/in-image/pack.py.

Only an image has one. A module's code lies there on a shelf with others that are needed with it, and beside the names
of those that its top imports, so that these are run in turn, past Python's search for files. The sources stay the
truth: tracebacks name them, and what is not in the pack is imported from them.
"""

import sys
from _frozen_importlib import ModuleSpec  # importlib.machinery's
from marshal import loads

TYPE_CHECKING = False  # no room of ours can be imported here: there is no finder yet
if TYPE_CHECKING:
    from types import CodeType, ModuleType


class Packed:
    """A finder and loader (importlib.abc). `needs` = module -> modules that its top imports, `shelf` = module -> place
    of its shelf, from `base`, and its length; `path` = the pack."""

    def __init__(
        self, path: str, base: int, needs: "dict[str, tuple[str, ...]]", shelf: "dict[str, tuple[int, int]]"
    ) -> None:
        self.path, self.base, self.needs, self.shelf = path, base, needs, shelf
        self.codes: dict[str, CodeType] = {}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return self._spec(name) if name in self.shelf else None

    def create_module(self, spec: ModuleSpec) -> "ModuleType":
        module = type(sys)(spec.name)
        module.__file__ = spec.origin
        return module

    def exec_module(self, module: "ModuleType") -> None:
        for name in self.needs[module.__name__]:
            if name not in sys.modules:
                self._load(name)
        exec(self.codes.pop(module.__name__), module.__dict__)

    def _spec(self, name: str) -> ModuleSpec:
        if name not in self.codes:
            start, size = self.shelf[name]
            with open(self.path, "rb", 0) as file:
                file.seek(self.base + start)
                self.codes.update(loads(file.read(size)))
        origin = self.codes[name].co_filename
        spec = ModuleSpec(name, self, origin=origin)  # type: ignore[arg-type]  # it has what a Loader has
        if origin.endswith("/__init__.py"):
            spec.submodule_search_locations = [origin.rpartition("/")[0]]
        return spec

    def _load(self, name: str) -> None:
        """What importlib does: spec, entry in sys.modules, run, attribute of the package."""
        package, _, last = name.rpartition(".")
        if package and package not in sys.modules:
            self._load(package)
            if name in sys.modules:
                return
        spec = self._spec(name)
        module = self.create_module(spec)
        module.__spec__, module.__loader__, module.__package__ = spec, self, package  # type: ignore[assignment]
        if spec.submodule_search_locations is not None:
            module.__path__, module.__package__ = spec.submodule_search_locations, name
        sys.modules[name] = module
        try:
            self.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        if package:
            setattr(sys.modules[package], last, module)

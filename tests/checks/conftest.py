"""What the tests of checks share."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent.parent / "checks" / "probes"


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Import a probe as a program does: from its own folder. What it tells is in its `said`."""
    monkeypatch.syspath_prepend(str(FOLDER))
    names = {path.stem for path in FOLDER.glob("*.py")}

    def load(name: str) -> Any:
        module = importlib.import_module(name)
        module.said = []  # type: ignore[attr-defined]
        if hasattr(module, "tell"):
            monkeypatch.setattr(module, "tell", lambda **data: module.said.append(data))
        return module

    yield load
    for name in names & set(sys.modules):
        del sys.modules[name]

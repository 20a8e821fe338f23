"""expected.json of a machine in tests/machines: "facts" and "plan", each compared and blessed by itself.

A new machine has no such file yet: BLESS=1 writes it, whichever of the two is asked first.
"""

import json
import os
from pathlib import Path
from typing import Any


def answered(folder: Path, part: str, found: Any) -> tuple[Any, Any]:
    """What was found and what is wanted, as JSON holds them. BLESS=1 makes the one the other, and keeps other parts."""
    path = folder / "expected.json"
    wanted = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"facts": None, "plan": None}
    found = json.loads(json.dumps(found))
    if os.environ.get("BLESS") == "1":
        wanted[part] = found
        path.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
    return found, wanted[part]

"""pins.toml: every version, one table per Dockerfile."""

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

NOT_ARGS = ("budget",)


class PinError(ValueError):
    """pins.toml cannot be used; the text names the table and the key."""


class Pins(NamedTuple):
    """`args`: Dockerfile suffix -> ARG -> value. `budget`: what a build may cost, in GB of 1e9 bytes."""

    args: dict[str, dict[str, str]]
    budget: dict[str, float]

    def of(self, name: str) -> str:
        """The value of a pin, whatever table it stands in; PinError when there is none."""
        for table in self.args.values():
            if name in table:
                return table[name]
        raise PinError(f"pins.toml: no pin named {name}")


def read_pins(path: Path) -> Pins:
    """Pins of a checkout. PinError when the file is missing, is no TOML, or holds other than text in an ARG table."""
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PinError(f"{path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise PinError(f"{path}: {error}") from error
    for table, keys in data.items():
        if not isinstance(keys, dict):
            raise PinError(f"{path}: {table} stands outside a table; put it under [base], [deepspeed] or [budget]")
    args = {table: keys for table, keys in data.items() if table not in NOT_ARGS}
    for table, keys in args.items():
        for key, value in keys.items():
            if not isinstance(value, str) or not value:
                raise PinError(f'{path}: [{table}] {key} must be text in quotes, such as "1.2.3"')
    budget = data.get("budget", {})
    for key, value in budget.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise PinError(f"{path}: [budget] {key} must be a number of GB above 0")
    return Pins(args, {key: float(value) for key, value in budget.items()})

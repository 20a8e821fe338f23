"""Facts and plans as plain data: nested NamedTuples to dicts and lists that JSON can carry, and nothing else."""

from rig.lean import Any


def plain(value: Any) -> Any:
    """NamedTuples and mappings become dicts, tuples lists; scalars stay. Other types raise TypeError."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(item) for name, item in zip(value._fields, value, strict=True)}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    raise TypeError(f"{type(value).__name__} is not plain data")

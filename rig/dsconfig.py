"""DeepSpeed config files: read as DeepSpeed reads them, filled where the user left room, written as strict JSON.

Nothing here judges (rig.judge) and nothing decides on numbers (rig.plan.deepspeed).
"""

from rig.lean import Any, Mapping, NamedTuple
from rig.plan import Setting

ZERO = "zero_optimization"
AUTO = "auto"
DEPTH_LIMIT = 64  # real configs have 6 levels; a hundred thousand brackets are an accident or an attack

# DeepSpeed's two spellings of one key (runtime/zero/config.py, pydantic aliases); giving both is an error.
ALIASES = {
    "stage3_prefetch_bucket_size": "prefetch_bucket_size",
    "stage3_param_persistence_threshold": "param_persistence_threshold",
    "stage3_model_persistence_threshold": "model_persistence_threshold",
    "stage3_max_live_parameters": "max_live_parameters",
    "stage3_max_reuse_distance": "max_reuse_distance",
}
# Keys about the network, with the stages in which DeepSpeed 0.12.6 reads them. Only these are ever filled.
FILLABLE = {
    "reduce_bucket_size": (1, 2, 3),
    "allgather_bucket_size": (1, 2),
    "overlap_comm": (1, 2, 3),
    "contiguous_gradients": (2, 3),
    "reduce_scatter": (2, 3),
    "stage3_prefetch_bucket_size": (3,),
    "stage3_param_persistence_threshold": (3,),
    "stage3_max_live_parameters": (3,),
    "stage3_max_reuse_distance": (3,),
}
# Keys whose value DeepSpeed declares as an integer, in elements (buckets and thresholds) or samples (batch).
INTEGER_ZERO_KEYS = frozenset(
    {
        *ALIASES,
        *ALIASES.values(),
        "reduce_bucket_size",
        "allgather_bucket_size",
        "sub_group_size",
        "zero_hpz_partition_size",
        "mics_shard_size",
        "stage",
    }
)
BATCH_KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


class ConfigError(ValueError):
    """A config file that DeepSpeed cannot read. `name` is the file, `line` counts from 1 (None: unknown)."""

    def __init__(self, name: str, line: int | None, message: str) -> None:
        self.name, self.line, self.message = name, line, message
        super().__init__(f"{name}: {message}" if line is None else f"{name}:{line}: {message}")


class Change(NamedTuple):
    """One key that was changed in the copy. `before` is None where the key was absent."""

    key: str
    before: Any
    after: Any
    reason: str


class _Duplicate(Exception):
    def __init__(self, key: str) -> None:
        self.key = key


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Duplicate(key)
        found[key] = value
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def parse_config(text: str, name: str) -> dict[str, Any]:
    """The config as DeepSpeed 0.12.6 reads it: HJSON, a key given twice in one object refused.

    Source: runtime/config.py, runtime/config_utils.py. Raises ConfigError with file and line; what is nested deeper
    than DEPTH_LIMIT is refused. Strict JSON never loads the HJSON package.
    """
    try:
        import json

        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except _Duplicate as twice:
        raise _duplicate(text, name, twice.key) from None
    except RecursionError:
        raise ConfigError(name, None, "nested too deeply") from None
    except ValueError as error:
        found = _parse_hjson(text, name, error)
    if not isinstance(found, dict):
        raise ConfigError(name, 1, f"the config must be an object {{...}}, not {_kind(found)}")
    if _deeper_than(found, DEPTH_LIMIT):
        raise ConfigError(name, None, "nested too deeply")
    return found


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
        ]
        if not level:
            return False
    return True


def _parse_hjson(text: str, name: str, strict: ValueError) -> Any:
    try:
        import hjson
    except ImportError:
        raise ConfigError(
            name, getattr(strict, "lineno", None), f"not JSON: {getattr(strict, 'msg', strict)}"
        ) from None
    try:
        return hjson.loads(text, object_pairs_hook=_unique)
    except _Duplicate as twice:
        raise _duplicate(text, name, twice.key) from None
    except RecursionError:
        raise ConfigError(name, None, "nested too deeply") from None
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        # HJSON reads on to the end of the file after an open bracket; where strict JSON stopped is then better.
        better = strict if "eof" in str(error) and hasattr(strict, "lineno") else error
        line = getattr(better, "lineno", None) or getattr(strict, "lineno", None)
        raise ConfigError(name, line, f"neither JSON nor HJSON: {_message(better)}") from None


def _message(error: Exception) -> str:
    return str(getattr(error, "msg", None) or error).replace(" %r", "")  # HJSON forgets to fill this in


def _duplicate(text: str, name: str, key: str) -> ConfigError:
    from rig.dstext import duplicate_line

    return ConfigError(name, duplicate_line(text, key), f"duplicate key '{key}'")


def _kind(value: Any) -> str:
    return {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(type(value), "a number")


def get(config: Mapping[str, Any], dotted: str) -> Any:
    """The value under a dotted name, None where it or a parent is missing."""
    value: Any = config
    for part in dotted.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def copy_of(value: Any) -> Any:
    """A copy of a parsed config that shares no dict or list with it."""
    if isinstance(value, Mapping):
        return {key: copy_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copy_of(item) for item in value]
    return value


def stage_of(config: Mapping[str, Any]) -> int:
    """The ZeRO stage that DeepSpeed 0.12.6 would run: 0 where the key is missing, "auto" (dropped) or not a stage; the
    deprecated `"zero_optimization": true` means 1."""
    zero = config.get(ZERO)
    if isinstance(zero, bool):
        return int(zero)
    stage = zero.get("stage") if isinstance(zero, Mapping) else None
    return int(stage) if isinstance(stage, (int, float)) and stage in (0, 1, 2, 3) else 0


def fill(config: Mapping[str, Any], planned: Mapping[str, Setting]) -> tuple[dict[str, Any], tuple[Change, ...]]:
    """A copy of config in which network keys that are "auto" or absent have the planned values, and what was changed.

    `planned` holds dotted names (`zero_optimization.reduce_bucket_size`). Only FILLABLE keys of the user's own stage
    are touched; a value that the user wrote stays, whichever of the two spellings it has. overlap_comm is never
    switched on below stage 3, whatever the plan says: buffers race there before DeepSpeed 0.14.3
    (deepspeedai/DeepSpeed PR 5606).
    """
    copy: dict[str, Any] = copy_of(config)
    stage, zero = stage_of(copy), copy.get(ZERO)
    changes = [*_torch_adam(copy, planned.get("optimizer.params.torch_adam"))]
    if stage == 0 or not isinstance(zero, dict):
        return copy, tuple(changes)
    for key, stages in FILLABLE.items():
        setting = planned.get(f"{ZERO}.{key}")
        name = key if ALIASES.get(key) not in zero else ALIASES[key]
        before = zero.get(name)
        if setting is None or stage not in stages or (name in zero and before != AUTO):
            continue
        value = False if key == "overlap_comm" and stage != 3 else setting.value
        zero[name] = value
        changes.append(Change(f"{ZERO}.{name}", before, value, setting.reason))
    return copy, tuple(changes)


def _torch_adam(copy: dict[str, Any], planned: Setting | None) -> tuple[Change, ...]:
    """torch_adam in an Adam or AdamW section that does not name it: without a compiled op the start would fail."""
    optimizer = copy.get("optimizer")
    if (
        planned is None
        or not isinstance(optimizer, dict)
        or str(optimizer.get("type")).lower() not in ("adam", "adamw")
    ):
        return ()
    params = optimizer.setdefault("params", {})
    if not isinstance(params, dict) or params.get("torch_adam", AUTO) != AUTO:
        return ()
    before = params.get("torch_adam")
    params["torch_adam"] = planned.value
    return (Change("optimizer.params.torch_adam", before, planned.value, planned.reason),)


def render(config: Mapping[str, Any]) -> str:
    """Strict JSON that DeepSpeed, Hugging Face and Accelerate all read.

    Whole numbers where DeepSpeed declares integers, the user's key order, a newline at the end. Raises ConfigError for
    what JSON cannot hold (infinity, not-a-number).
    """
    import json

    whole = copy_of(config)
    _integers(whole, BATCH_KEYS)
    if isinstance(whole.get(ZERO), dict):
        _integers(whole[ZERO], INTEGER_ZERO_KEYS)
    try:
        return json.dumps(whole, indent=2, allow_nan=False, ensure_ascii=True) + "\n"
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError("ds_config", None, f"cannot be written as JSON: {error}") from None


def _integers(section: dict[str, Any], keys: "frozenset[str] | tuple[str, ...]") -> None:
    for key in section:
        value = section[key]
        if key in keys and isinstance(value, float) and value.is_integer():
            section[key] = int(value)


def assemble(planned: Mapping[str, Setting]) -> dict[str, Any]:
    """A nested config out of dotted names, in the order given."""
    config: dict[str, Any] = {}
    for name, setting in planned.items():
        section = config
        *parents, last = name.split(".")
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = copy_of(setting.value)
    return config

"""Sizes: written as whole numbers, positive, within memory and model. All are elements, never bytes."""

from rig.dsconfig import ALIASES, INTEGER_ZERO_KEYS, ZERO, stage_of
from rig.judge.ruling import Edit, Ruling
from rig.judge.site import Site, inputs_at, plan_at
from rig.lean import Any, Iterator, Mapping
from rig.plan.ds_size import pace

MAX_INT = 9223372036854775807  # DeepSpeed's own default of model_persistence_threshold
BUCKETS = ("reduce_bucket_size", "allgather_bucket_size", "stage3_prefetch_bucket_size", "prefetch_bucket_size")
# Limits for which "no limit" is meant by infinity; a bucket is memory and has no such meaning.
LIMITS = (
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "stage3_model_persistence_threshold",
    "max_live_parameters",
    "max_reuse_distance",
    "model_persistence_threshold",
    "sub_group_size",
)
ASSUMED_MEMORY = 200e9  # no GPU has more in one piece today; for buckets that fit nowhere
IN_FLIGHT = 4  # times the bucket: held, concatenated, sent, and the next one
CLAMP_SHARE = 0.25  # of the memory: more in buckets than this is what pushed published runs over the edge
SHORT = {short: long for long, short in ALIASES.items()}


def types(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """Booleans, lists and words where an integer is meant. true loads as 1: one collective a tensor."""
    for key, value in _integers(config):
        if isinstance(value, bool) and key != "stage":
            what = "a boolean"
        elif isinstance(value, str):
            what = "" if _from_text(value) is not None else f"'{value[:40]}', no number"
        elif value is None or isinstance(value, (list, Mapping)):
            what = "null" if value is None else "no number"
        else:
            what = ""
        if what:
            yield Ruling("reject", "bucket-type", f"{key} is {what}", f"{ZERO}.{key}", "Write a number of elements")


def whole(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """0.9 h^2, "5e8" and 5e8: 0.12.6 truncates, 0.15 and later refuse fractions, strings with an exponent fail."""
    for key, value in _integers(config):
        path = (ZERO, key)
        if isinstance(value, str):
            number = _from_text(value)
        elif isinstance(value, float):
            number = value
        elif value is True and key == "stage":
            number = 1.0
        else:
            continue
        if number is None or number != number:
            continue
        if abs(number) == float("inf"):
            yield from _infinite(key, path, number)
        elif isinstance(value, float) and number.is_integer():
            text = f"{key}: {number:g} is a whole number, written as one"
            yield Ruling("accept", "number-ok", text, f"{ZERO}.{key}", edits=(Edit(path, int(number)),))
        else:
            text = f"{key} must be a whole number: {value!r} becomes {int(number)}"
            yield Ruling("fix", "number-int", text, f"{ZERO}.{key}", "Write an integer", (Edit(path, int(number)),))


def _infinite(key: str, path: tuple[str, str], number: float) -> Iterator[Ruling]:
    if key in LIMITS and number > 0:
        text = f"{key}: infinity is not JSON; no limit is written as {MAX_INT}"
        yield Ruling("fix", "number-int", text, f"{ZERO}.{key}", "Write an integer", (Edit(path, MAX_INT),))
    elif number > 0:
        text = f"{key} needs more memory than one GPU has: it is infinite"
        yield Ruling("reject", "bucket-memory", text, f"{ZERO}.{key}", "Write a number of elements")


def positive(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """A bucket of 0 loads and divides by zero in backward; a negative size does not load."""
    for key, value in _sizes(config):
        least = 1 if key in ("reduce_bucket_size", "allgather_bucket_size", "sub_group_size") else 0
        if key in ("stage", "mics_shard_size") or value >= least:
            continue
        planned = plan_at(site, stage_of(config) or None).named().get(f"{ZERO}.{SHORT.get(key, key)}")
        suggest = {ZERO: {key: planned.value}} if planned else {}
        text = f"{key} is {value}: it must be at least {least}"
        yield Ruling(
            "reject", "bucket-nonpositive", text, f"{ZERO}.{key}", "Write a number of elements", suggest=suggest
        )


def memory(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """The flat buffer is allocated whole at the start and has no upper bound in DeepSpeed's schema."""
    total = site.memory_bytes or ASSUMED_MEMORY
    for key, value in _buckets(config):
        needed = _element_bytes(config, site) * value
        if needed > total:
            text = f"{key} needs more memory than one GPU has: {_gb(needed)} of {_gb(total)} GB"
            yield Ruling("reject", "bucket-memory", text, f"{ZERO}.{key}", "Write a smaller number of elements")


def clamp_memory(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """A bucket that fits the card, but with its copies in flight leaves too little for the rest."""
    stage, e, total = stage_of(config), _element_bytes(config, site), site.memory_bytes
    for key, value in _buckets(config):
        flight = e * value * (IN_FLIGHT if key == "reduce_bucket_size" else IN_FLIGHT // 2)
        if not total or flight <= CLAMP_SHARE * total or e * value > total:
            continue
        room = pace(inputs_at(site, stage), stage).room
        cap = int((room.reduce_cap if key == "reduce_bucket_size" else room.prefetch_cap) / e) if room else value
        if cap < value:
            edit = Edit((ZERO, key), max(2, cap - cap % 2))
            text = f"{key} {value} takes {_gb(flight)} of {_gb(total)} GB in flight: {edit.value}"
            yield Ruling("fix", "bucket-clamp-memory", text, f"{ZERO}.{key}", "Write a smaller number", (edit,))


def clamp_model(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """A bucket larger than the model is allocated whole and never full."""
    params = site.model.params
    for key, value in _buckets(config):
        if params and value > params + params % 2:
            edit = Edit((ZERO, key), params + params % 2)
            text = f"{key} {value} is larger than the model ({params} parameters): it is never full: {edit.value}"
            yield Ruling("fix", "bucket-clamp-model", text, f"{ZERO}.{key}", "Write at most the model's size", (edit,))


def prefetch(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """0 switches prefetch off; below one tensor of a block it is worse than none: 62 gathers against 32."""
    found = next(((key, value) for key, value in _sizes(config) if SHORT.get(key, key) == BUCKETS[2]), None)
    if found is None or stage_of(config) != 3:
        return
    key, value = found
    dynamic, least = site.model.dynamic, site.model.largest_tensor
    planned = plan_at(site, 3).named()[f"{ZERO}.{BUCKETS[2]}"]
    if dynamic:
        if value == 0:
            yield Ruling("accept", "prefetch-off", "prefetch is off, as a changing module order asks", f"{ZERO}.{key}")
        else:
            edits = (Edit((ZERO, key), 0), Edit((ZERO, "stage3_max_reuse_distance"), 0))
            text = "a changing module order (MoE) invalidates the prefetch trace every step and can hang: prefetch off"
            yield Ruling("fix", "moe-prefetch", text, f"{ZERO}.{key}", "Set prefetch and reuse distance to 0", edits)
    elif value == 0:
        text = "prefetch is disabled: each module's weights are gathered in the open"
        suggest = {ZERO: {key: planned.value}}
        fix = f"Set {key} to {planned.value}"
        yield Ruling("warn", "prefetch-off", text, f"{ZERO}.{key}", fix, suggest=suggest)
    elif least and value < least and planned.value > value:
        block = f"the largest tensor of a block ({least} elements)"
        text = f"{key} {value} is smaller than {block}: weights of a layer travel in pieces; {planned.value}"
        edit = Edit((ZERO, key), planned.value)
        yield Ruling("fix", "prefetch-min", text, f"{ZERO}.{key}", f"Write at least {least}", (edit,))


def persistence(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """A threshold at or above a matrix of a block keeps the model whole on every GPU: ZeRO-3 in name only."""
    found = next(((key, value) for key, value in _sizes(config) if key.endswith("param_persistence_threshold")), None)
    if found is None or stage_of(config) != 3:
        return
    key, value = found
    hidden = site.model.hidden
    if value >= (hidden * hidden if hidden else 100_000_000):
        planned = plan_at(site, 3).named()[f"{ZERO}.stage3_param_persistence_threshold"]
        size = f"h^2 = {hidden * hidden}" if hidden else "1e8, more than most matrices have"
        text = f"{key} {value} is at or above {size}: most of the model stays whole on every GPU, ZeRO-3 shards little"
        suggest = {ZERO: {key: planned.value}}
        yield Ruling(
            "warn", "persistence-unshards", text, f"{ZERO}.{key}", f"Set it to {planned.value}", suggest=suggest
        )


def even(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """An odd allgather_bucket_size asserts at the start of stages 1 and 2; else it has no effect (torch >= 1.13)."""
    value = dict(_sizes(config)).get("allgather_bucket_size")
    if value is not None and value % 2 and stage_of(config) in (1, 2):
        text = f"allgather_bucket_size {value} is odd, DeepSpeed asserts an even one: {value + 1}"
        edit = Edit((ZERO, "allgather_bucket_size"), value + 1)
        yield Ruling("fix", "allgather-even", text, f"{ZERO}.allgather_bucket_size", "Write an even number", (edit,))


def _integers(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    zero = config.get(ZERO)
    for key, value in tuple(zero.items()) if isinstance(zero, Mapping) else ():
        if key in INTEGER_ZERO_KEYS and value != "auto":
            yield key, value


def _sizes(config: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for key, value in _integers(config):
        if isinstance(value, int) and not isinstance(value, bool):
            yield key, value


def _buckets(config: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The buckets that the stage allocates; allgather_bucket_size is never allocated (torch >= 1.13)."""
    stage = stage_of(config)
    allocated = () if stage == 0 else ("reduce_bucket_size",) if stage < 3 else (BUCKETS[0], *BUCKETS[2:])
    for key, value in _sizes(config):
        if value > 0 and key in allocated:
            yield key, value


def _from_text(text: str) -> float | None:
    try:
        return float(text.strip().replace("_", "x"))
    except ValueError:
        return None


def _element_bytes(config: Mapping[str, Any], site: Site) -> int:
    return 4 if site.cpu else 2


def _gb(size: float) -> str:
    return f"{size / 1e9:.3g}"


def finite(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """Infinity and NaN are not JSON: HJSON reads a word, Hugging Face refuses the file."""
    clip = config.get("gradient_clipping")
    if isinstance(clip, float) and clip == float("inf"):
        text = "gradient_clipping: infinity is not JSON; no clipping is written as 0.0"
        edit = Edit(("gradient_clipping",), 0.0)
        yield Ruling("fix", "json-normalise", text, "gradient_clipping", "Write 0.0", (edit,))
    for path in _not_finite(config, ()):
        if path == ("gradient_clipping",) and clip == float("inf"):
            continue
        name = ".".join(path)
        yield Ruling("reject", "json-normalise", f"{name} is not a number that JSON can hold", name, "Write a number")


def _not_finite(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        yield path
    inner = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    )
    for key, item in inner:
        yield from _not_finite(item, (*path, str(key)))


RULES = (types, whole, positive, memory, clamp_memory, prefetch, persistence, even)
LAST = (clamp_model, finite)

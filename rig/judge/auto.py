""" "auto" is no feature of DeepSpeed: dropped without a word in zero_optimization, on in fp16, an error elsewhere."""

from rig.dsconfig import AUTO, BATCH_KEYS, FILLABLE, ZERO, stage_of
from rig.judge.ruling import Edit, Ruling
from rig.judge.site import Site, plan_at
from rig.lean import Any, Iterator, Mapping

BF16_FROM = 80
BUCKETS = tuple(key for key in FILLABLE if key not in ("overlap_comm", "contiguous_gradients", "reduce_scatter"))
HF_BUCKETS = ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold")
# DeepSpeed 0.12.6's own values, written where "auto" left the question open.
SWITCHES = {"contiguous_gradients": True, "reduce_scatter": True}


def spelling(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """ "Auto" and "AUTO" are nobody's word: neither DeepSpeed nor Hugging Face replaces them."""
    for path, value in _strings(config):
        if value != AUTO and value.strip().lower() == AUTO:
            yield Ruling(
                "fix",
                "auto-case",
                f"{'.'.join(path)} is '{value}': only 'auto' in lower case is replaced by anybody",
                ".".join(path),
                "Write 'auto' or a value",
                (Edit(path, AUTO),),
            )


def batch(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """Batch keys left "auto": the Trainer fills them; a bare deepspeed.initialize raises TypeError."""
    left = tuple(key for key in BATCH_KEYS if config.get(key) == AUTO)
    if not left:
        return
    if site.resolver:
        yield Ruling("accept", "auto-batch", f"{', '.join(left)} left to the Trainer", left[0])
        return
    train, micro, gas = (_whole(config.get(key)) for key in BATCH_KEYS)
    micro = micro or _quotient(train, (gas or 0) * site.ranks) or 1
    gas = gas or _quotient(train, micro * site.ranks) or 1
    values = dict(zip(BATCH_KEYS, (train or micro * gas * site.ranks, micro, gas), strict=True))
    said = ", ".join(f"{key} = {values[key]}" for key in left)
    yield Ruling(
        "fix",
        "auto-batch",
        f"{', '.join(left)} 'auto' and nothing in the script resolves it: {said} for {site.ranks} ranks",
        left[0],
        "Write the batch that you want",
        tuple(Edit((key,), values[key]) for key in left),
    )


def precision(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """fp16 and bf16 "auto" are strings, so both count as on."""
    left = [name for name in ("fp16", "bf16", "amp") if _enabled(config, name) == AUTO]
    if not left:
        return
    if site.resolver:
        yield Ruling("accept", "auto-dtype", f"{', '.join(left)} left to the Trainer", f"{left[0]}.enabled")
        return
    values = _dtype(config, site, left)
    told = ", ".join(f"{name} {'on' if on else 'off'}" for name, on in values.items())
    why = "no GPU" if site.cpu else f"capability {site.capability or 'unknown'}"
    yield Ruling(
        "fix",
        "auto-dtype",
        f"{' and '.join(left)} 'auto' counts as on in DeepSpeed: {told} ({why})",
        f"{left[0]}.enabled",
        "Write true or false",
        tuple(Edit((name, "enabled"), on) for name, on in values.items()),
    )


def _dtype(config: Mapping[str, Any], site: Site, left: list[str]) -> dict[str, bool]:
    other = next((n for n in ("fp16", "bf16", "amp") if n not in left and _enabled(config, n) in (True, 1)), None)
    modern = site.capability is not None and site.capability >= BF16_FROM
    wanted = None if site.cpu or other else "bf16" if "bf16" in left and modern else "fp16"
    if wanted == "fp16" and left == ["amp"]:
        wanted = None
    values = {name: name == wanted for name in left}
    if wanted == "fp16" and "fp16" not in left:
        values["fp16"] = True  # bf16 alone was left open on a GPU that has none
    return values


def clipping(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """gradient_clipping "auto" loads and fails at the first optimizer step."""
    if config.get("gradient_clipping") != AUTO:
        return
    if site.resolver:
        yield Ruling("accept", "auto-clip", "gradient_clipping left to the Trainer", "gradient_clipping")
        return
    yield Ruling(
        "fix",
        "auto-clip",
        "gradient_clipping 'auto' fails at the first step: 1.0, the Trainer's own default",
        "gradient_clipping",
        "Write a number",
        (Edit(("gradient_clipping",), 1.0),),
    )


def optimizer(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """A learning rate cannot be invented by an image."""
    left = [
        f"{section}.params.{key}"
        for section in ("optimizer", "scheduler")
        for key, value in _section(_section(config, section), "params").items()
        if value == AUTO and key != "torch_adam"
    ]
    if not left:
        return
    if site.resolver:
        yield Ruling("accept", "auto-optimizer", f"{', '.join(left)} left to the Trainer", left[0])
        return
    names = ", ".join(left)
    yield Ruling(
        "reject",
        "auto-optimizer",
        f"{names} is 'auto' but the script does not use HF Trainer/Accelerate: give numbers",
        left[0],
        f"Write numbers for {names}",
    )


def stage(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """A stage "auto" is dropped: ZeRO is off without a word. Nobody resolves it, Hugging Face neither."""
    if _section(config, ZERO).get("stage") != AUTO:
        return
    planned = plan_at(site, None)
    why = next(setting.reason for setting in planned.settings if setting.name == f"{ZERO}.stage")
    yield Ruling(
        "fix",
        "auto-stage",
        f"zero_optimization.stage 'auto' is dropped, ZeRO would be off: stage {planned.stage} ({why})",
        f"{ZERO}.stage",
        "Write 1, 2 or 3",
        (Edit((ZERO, "stage"), planned.stage),),
    )


def buckets(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """Any key of zero_optimization that is "auto" is dropped before validation, and the default used."""
    zero = _section(config, ZERO)
    left = [key for key, value in zero.items() if value == AUTO and key != "stage"]
    if site.resolver and not site.hidden_hides:
        theirs = [key for key in left if key in HF_BUCKETS]
        if theirs:
            yield Ruling("accept", "auto-bucket", f"{', '.join(theirs)} left to the Trainer", f"{ZERO}.{theirs[0]}")
        left = [key for key in left if key not in HF_BUCKETS]
    if not left:
        return
    planned = plan_at(site, stage_of(config) or None).named()
    for key in left:
        setting = planned.get(f"{ZERO}.{_long(key)}")
        value = setting.value if setting and key not in SWITCHES else SWITCHES.get(key)
        if value is None:
            yield Ruling(
                "warn", "auto-bucket", f"{key} 'auto' is dropped: DeepSpeed's default is used", f"{ZERO}.{key}"
            )
            continue
        yield Ruling(
            "fix",
            "auto-bucket",
            f"{key} 'auto' is dropped without a word: {value} ({setting.reason if setting else 'default'})",
            f"{ZERO}.{key}",
            "Write a number",
            (Edit((ZERO, key), value),),
        )


def _long(key: str) -> str:
    return key if key in FILLABLE else f"stage3_{key}"


def _strings(config: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, value in config.items():
        if isinstance(value, str):
            yield (*path, key), value
        elif isinstance(value, Mapping):
            yield from _strings(value, (*path, key))


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}


def _enabled(config: Mapping[str, Any], name: str) -> Any:
    return _section(config, name).get("enabled")


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _quotient(whole: int | None, part: int) -> int | None:
    """whole / part where it divides without rest."""
    return whole // part if whole and part and whole % part == 0 else None


RULES = (spelling, stage, batch, precision, clipping, optimizer, buckets)

"""train_batch_size = micro batch x accumulation x ranks. A batch is training: it is never changed, only refused."""

from rig.dsconfig import AUTO, BATCH_KEYS
from rig.judge.ruling import Edit, Ruling
from rig.judge.site import Site
from rig.lean import Any, Iterator, Mapping

TRAIN, MICRO, GAS = BATCH_KEYS


def whole(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """8.0 and "8" are written as 8; half a sample is refused."""
    for key in BATCH_KEYS:
        value = config.get(key)
        if value is None or value == AUTO or (isinstance(value, int) and not isinstance(value, bool)):
            continue
        number = _number(value)
        if number is None:
            yield Ruling("reject", "batch-int", f"{key} is {value!r}, not a whole number", key, "Write an integer")
        else:
            edit = Edit((key,), number)
            text = f"{key} must be written as an integer: {value!r} becomes {number}"
            yield Ruling("fix", "batch-int", text, key, "Write an integer", (edit,))


def missing(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """Without train_batch_size and micro batch DeepSpeed asserts."""
    if _elastic(config) or config.get(TRAIN) is not None or config.get(MICRO) is not None:
        return
    text = f"neither {TRAIN} nor {MICRO} is given: {MICRO} = 1, the smallest"
    yield Ruling("fix", "batch-default", text, MICRO, "Write the batch that you want", (Edit((MICRO,), 1),))


def small(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """Zero, negative, or fewer samples than ranks: DeepSpeed's integer division then gives 0."""
    if _elastic(config):
        return
    for key in BATCH_KEYS:
        given = config.get(key)
        if isinstance(given, int) and given < 1:
            yield Ruling("reject", "batch-small", f"{key} is {given}: it must be at least 1", key, "Write 1 or more")
            return
    train, micro, gas = _given(config)
    least = (micro or 1) * (gas or 1) * site.ranks
    if train and train < least and not (micro and gas) and site.dist_initialised is not False:
        needs = " * ".join(str(part) for part in (micro, gas) if part)
        share = f"{needs} * {site.ranks} = {least}" if needs else f"{site.ranks}"
        text = f"{TRAIN} {train} is below {share}: not one sample a step for each of {site.ranks} ranks"
        suggest = {TRAIN: least}
        yield Ruling(
            "reject", "batch-small", text, TRAIN, f"Raise {TRAIN} to {least} or use fewer GPUs", suggest=suggest
        )


def identity(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """The product must be exact, for the world that DeepSpeed will see: 1 where torch.distributed is not yet there."""
    train, micro, gas = _given(config)
    if _elastic(config) or not train or any(isinstance(config.get(key), str) for key in BATCH_KEYS):
        return
    if site.dist_initialised is False and site.ranks > 1 and micro and gas:
        if train == micro * gas * site.ranks:
            fits = f"{train} = {micro}*{gas}*{site.ranks}"
            text = f"{fits} fits {site.ranks} ranks but DeepSpeed saw a world of 1: start through the launcher"
            yield Ruling("reject", "world-one", text, TRAIN, "Start the script through the launcher")
            return
        if train == micro * gas:
            return
    steps = gas or (train // (micro * site.ranks) if micro else 1)
    each = micro or train // (site.ranks * steps)
    if min(steps, each) < 1 or train == each * steps * site.ranks:
        return  # below one sample a rank is `small`
    product = each * steps * site.ranks
    text = f"{train} != {each} * {steps} * {site.ranks} (={product}): micro batch * accumulation * ranks"
    fix = f"Set {TRAIN} to {product}, or change the other two"
    yield Ruling("reject", "batch-identity", text, TRAIN, fix, suggest={TRAIN: product})


def trainer(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """Fixed numbers that differ from the Trainer's arguments: it raises. "auto" takes its values."""
    if site.resolver != "hf" or site.hf_batch is None:
        return
    theirs = dict(zip(BATCH_KEYS, (site.hf_batch * site.hf_gas * site.ranks, site.hf_batch, site.hf_gas), strict=True))
    wrong = [key for key, own in theirs.items() if isinstance(config.get(key), int) and config[key] != own]
    if wrong:
        suggest = dict.fromkeys(wrong, AUTO)
        text = ", ".join(f"ds {key}={config[key]} vs HF {theirs[key]}" for key in wrong)
        yield Ruling(
            "reject", "batch-hf", text, wrong[0], 'Write "auto", or change the Trainer\'s arguments', suggest=suggest
        )


def _given(config: Mapping[str, Any]) -> tuple[int | None, int | None, int | None]:
    train, micro, gas = (
        value if isinstance(value := config.get(key), int) and not isinstance(value, bool) and value > 0 else None
        for key in BATCH_KEYS
    )
    return train, micro, gas


def _elastic(config: Mapping[str, Any]) -> bool:
    section = config.get("elasticity")
    return isinstance(section, Mapping) and section.get("enabled") is True


def _number(value: Any) -> int | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, float) or not value.is_integer():
        return None
    return int(value)


RULES = (whole, missing, small, identity, trainer)

"""Names of keys: unknown to DeepSpeed, to this version of it, deprecated, misspelt."""

from rig.dsconfig import ALIASES, AUTO, ZERO, stage_of
from rig.judge.ruling import REMOVE, Edit, Ruling
from rig.judge.site import Site
from rig.lean import Any, Iterator, Mapping
from rig.plan.ds_versions import OFFLOAD_KEYS, TOP_KEYS, TOP_SINCE, ZERO_KEYS, Version, written

DISTANCE = 2  # letters that may differ between a key and what was meant
_FP16 = (
    "enabled auto_cast loss_scale initial_scale_power loss_scale_window hysteresis consecutive_hysteresis "
    "min_loss_scale fp16_master_weights_and_grads opt_level"
)
# Sections whose inner keys DeepSpeed does not check: a misspelt one is simply not read.
INNER = {
    "fp16": _FP16.split(),
    "bf16": ["enabled", "immediate_grad_update", "check_grad_overflow"],
    "optimizer": ["type", "params", "legacy_fusion"],
    "scheduler": ["type", "params"],
}
_SECTIONS = (
    "fp16 bf16 optimizer scheduler amp activation_checkpointing flops_profiler tensorboard wandb csv_monitor "
    "comms_logger autotuning elasticity aio sparse_attention pipeline progressive_layer_drop eigenvalue "
    "curriculum_learning data_efficiency checkpoint data_types nebula weight_quantization quantize_training "
    "compression_training hybrid_engine"
)
SECTIONS = tuple(_SECTIONS.split())
OLD_OFFLOAD = {  # deprecated names, and names that older guides used and 0.12.6 refuses
    "cpu_offload": "offload_optimizer",
    "cpu_offload_param": "offload_param",
    "cpu_offload_params": "offload_param",
}
DEVICES = ("none", "cpu", "nvme")
OLD_PIN = ("cpu_offload_use_pin_memory", "cpu_offload_pin_memory")
OLD_ZERO = {
    "stage3_gather_fp16_weights_on_model_save": "stage3_gather_16bit_weights_on_model_save",
    "gather_fp16_weights_on_model_save": "gather_16bit_weights_on_model_save",
}


def deprecated_zero(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """`"zero_optimization": true` is the oldest form: stage 1."""
    value = config.get(ZERO)
    if isinstance(value, bool):
        stage = int(value)
        text = f'"zero_optimization": {str(value).lower()} is deprecated: stage {stage}'
        yield Ruling(
            "fix", "key-migrate", text, ZERO, "Write a section with a stage", (Edit((ZERO,), {"stage": stage}),)
        )


def sections(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """A section that is no object ends in an AttributeError somewhere inside DeepSpeed."""
    for name in (ZERO, *SECTIONS):
        section = config.get(name)
        if name in config and not isinstance(section, Mapping):
            text = f"{name} must be an object, not {section!r}"[:120]
            yield Ruling("reject", "section-type", text, name, "Write a section")
    for name in ("optimizer", "scheduler"):
        section = config.get(name)
        if not isinstance(section, Mapping):
            continue
        if not isinstance(section.get("type", ""), str):
            text = f"{name}.type must be a name, not {section['type']!r}"[:120]
            yield Ruling("reject", "section-type", text, f"{name}.type", "Write a name in quotes")
        if not isinstance(section.get("params", {}), Mapping):
            text = f"{name}.params must be an object, not {section['params']!r}"[:120]
            yield Ruling("reject", "section-type", text, f"{name}.params", "Write a section")


def offload_sections(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """Offload sections are objects with a device that DeepSpeed knows."""
    zero = config.get(ZERO)
    for name in OFFLOAD_KEYS:
        section = zero.get(name) if isinstance(zero, Mapping) else None
        if section is None or section == AUTO:
            continue
        key = f"{ZERO}.{name}"
        if not isinstance(section, Mapping):
            text = f"{name} must be an object, not {section!r}"[:120]
            yield Ruling("reject", "section-type", text, key, 'Write {"device": "cpu"}')
        elif section.get("device", "none") not in (*DEVICES, AUTO):
            text = f"{name}.device {section['device']!r} is none of {', '.join(DEVICES)}"[:120]
            yield Ruling("reject", "offload-device", text, f"{key}.device", f"Write one of {', '.join(DEVICES)}")


def stage_range(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """Stages are 0 to 3."""
    zero = config.get(ZERO)
    stage = zero.get("stage") if isinstance(zero, Mapping) else None
    if stage not in (None, AUTO) and (not isinstance(stage, (int, float)) or stage not in (0, 1, 2, 3)):
        text = f"zero_optimization.stage {stage!r} does not exist: 0, 1, 2 or 3"[:120]
        yield Ruling("reject", "zero-stage", text, f"{ZERO}.stage", "Write 0, 1, 2 or 3")


def old_offload(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """cpu_offload and its relatives: deprecated, or unknown to 0.12.6, become offload sections."""
    zero = config.get(ZERO)
    old = [key for key in (*OLD_OFFLOAD, *OLD_PIN) if isinstance(zero, Mapping) and key in zero]
    if not old or not isinstance(zero, Mapping):
        return
    pin = any(zero.get(key) is True for key in OLD_PIN)
    edits = [Edit((ZERO, key), REMOVE) for key in old]
    for key, section in OLD_OFFLOAD.items():
        if zero.get(key) is True and not isinstance(zero.get(section), Mapping):
            edits.append(Edit((ZERO, section), {"device": "cpu", **({"pin_memory": True} if pin else {})}))
        elif pin and isinstance(zero.get(section), Mapping) and "pin_memory" not in zero[section]:
            edits.append(Edit((ZERO, section, "pin_memory"), True))
    text = f"{', '.join(old)}: deprecated or refused by DeepSpeed {written(site.version)}, written as offload sections"
    yield Ruling(
        "fix", "key-migrate", text, f"{ZERO}.{old[0]}", "Use offload_optimizer and offload_param", tuple(edits)
    )


def zero_names(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """Keys of zero_optimization and its offload sections are checked by DeepSpeed: an unknown one raises."""
    zero = config.get(ZERO)
    if not isinstance(zero, Mapping):
        return
    for key in tuple(zero):
        yield from _zero_name((ZERO,), key, zero, ZERO_KEYS, OLD_ZERO, site)
    for section, known in OFFLOAD_KEYS.items():
        inner = zero.get(section)
        for key in tuple(inner) if isinstance(inner, Mapping) else ():
            yield from _zero_name((ZERO, section), key, inner, known, {}, site)


def _zero_name(
    path: tuple[str, ...],
    key: str,
    section: Any,
    known: Mapping[str, Version],
    old: Mapping[str, str],
    site: Site,
) -> Iterator[Ruling]:
    name = ".".join((*path, key))
    since, meant = known.get(key), old.get(key) or ("" if key in known else _close(key, known))
    if key in old or (since is None and meant):
        if meant in section:
            yield Ruling("reject", "key-unknown", f"{key} stands beside {meant}, which it means", name, f"Remove {key}")
            return
        edits = (Edit((*path, key), REMOVE), Edit((*path, meant), section[key]))
        state = "is deprecated" if key in old else "is not known to DeepSpeed"
        yield Ruling("fix", "key-migrate", f"{key} {state}: '{meant}'", name, f"Write {meant}", edits)
    elif since is None:
        text = f"{key} is not known to DeepSpeed {written(site.version)} (extra fields not permitted)"
        yield Ruling("reject", "key-unknown", text, name, f"Remove {key}")
    elif since > site.version:
        text = f"{key} is not known to DeepSpeed {written(site.version)} (extra fields not permitted)"
        yield Ruling("reject", "key-version", f"{text}: it came with {written(since)}", name, f"Remove {key}")


def both_spellings(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """A key under its long and its short name is refused."""
    zero = config.get(ZERO)
    for long, short in ALIASES.items():
        if isinstance(zero, Mapping) and long in zero and short in zero:
            text = f"{long} and {short} are one key, given twice"
            yield Ruling("reject", "key-unknown", text, f"{ZERO}.{short}", f"Remove {short}")


def top_names(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """The top level is not checked by DeepSpeed at all: a misspelt section is silently off."""
    if "bfloat16" in config and "bf16" not in config:
        edits = (Edit(("bfloat16",), REMOVE), Edit(("bf16",), config["bfloat16"]))
        yield Ruling("fix", "key-migrate", "bfloat16 is the old name of bf16", "bfloat16", "Write bf16", edits)
    for key in config:
        if key in TOP_KEYS:
            continue
        since, meant = TOP_SINCE.get(key), _close(key, TOP_KEYS)
        if since is not None and since > site.version:
            text = f"{key} is not read by DeepSpeed {written(site.version)}: it came with {written(since)}"
            yield Ruling("warn", "key-version", text, key, f"Remove {key}")
        elif since is None and meant:
            text = f"unknown top-level key '{key}' (did you mean '{meant}'?)"
            yield Ruling("reject", "key-unknown", text, key, f"Write {meant}")
        elif since is None:
            place = f"; it belongs in {ZERO}" if key in ZERO_KEYS else ""
            text = f"top-level key '{key[:40]}' is not read by DeepSpeed{place}"
            yield Ruling("warn", "key-ignored", text, key[:40], "Remove it" if not place else f"Move it into {ZERO}")


def inner_names(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """Inside fp16, bf16, optimizer and scheduler nothing is checked: {"enable": true} is off."""
    for section, known in INNER.items():
        inner = config.get(section)
        if not isinstance(inner, Mapping):
            continue
        for key in inner:
            meant = "" if key in known else _close(key, known)
            if meant and meant not in inner:
                text = f"unknown key '{key}' in {section} (did you mean '{meant}'?): it is not read"
                yield Ruling("reject", "key-unknown", text, f"{section}.{key}", f"Write {meant}")


def _close(key: str, known: Any) -> str:
    """The known key that is at most DISTANCE letters away, "" where none or the key is too short to tell."""
    if len(key) < 4 or len(key) > 80:
        return ""
    folded = key.lower().replace("-", "_")
    near = [(_distance(folded, name), name) for name in known if abs(len(name) - len(folded)) <= DISTANCE]
    found = min(near, default=(DISTANCE + 1, ""))
    allowed = DISTANCE if len(folded) > 6 else 1
    return found[1] if found[0] <= allowed else ""


def _distance(a: str, b: str) -> int:
    """Levenshtein's."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (left != right))
    return row[-1]


def stage_off(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """A zero section without a stage is stage 0: ZeRO is off."""
    zero = config.get(ZERO)
    if isinstance(zero, Mapping) and zero and "stage" not in zero and stage_of(config) == 0:
        text = f"{ZERO} has no stage: ZeRO is off"
        yield Ruling("warn", "zero-stage", text, f"{ZERO}.stage", "Write the stage")


RULES = (
    top_names,
    deprecated_zero,
    sections,
    inner_names,
    old_offload,
    offload_sections,
    zero_names,
    both_spellings,
)
LAST = (stage_range, stage_off)

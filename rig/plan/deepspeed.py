"""Facts of links, GPUs and model -> the DeepSpeed settings that fit them, with formula, inputs and result of each.

A pure rule: the same inputs give the same file. All sizes are elements, never bytes. What DeepSpeed 0.12.6 is known to
get wrong is never written: partitioned weights inside a node (hpZ), overlap below stage 3, all-reduce of the whole
buffer (reduce_scatter false).
"""

from rig.finding import Finding
from rig.lean import Any, Mapping, NamedTuple
from rig.plan import Setting
from rig.plan.ds_advice import advice
from rig.plan.ds_inputs import DsInputs as DsInputs
from rig.plan.ds_memory import fits
from rig.plan.ds_size import Pace, Size, live_parameters, pace, persistence, prefetch_bucket, reduce_bucket
from rig.plan.ds_versions import OVERLAP_RACE

ZERO = "zero_optimization"


class Alternative(NamedTuple):
    """What a key would have been without this plan: DeepSpeed's default, and what Hugging Face writes for "auto" (None
    where the hidden size is unknown)."""

    key: str
    value: Any
    deepspeed: Any
    hf_auto: Any


class DsPlan(NamedTuple):
    """`settings` carry dotted names; `advice` are findings to print, never applied; `suggest` what would change."""

    stage: int
    settings: tuple[Setting, ...]
    advice: tuple[Finding, ...]
    alternatives: tuple[Alternative, ...]
    pace: Pace
    suggest: Mapping[str, int]

    def named(self) -> dict[str, Setting]:
        """By dotted name, as rig.dsconfig.fill takes it."""
        return {setting.name: setting for setting in self.settings}


def plan_deepspeed(inputs: DsInputs) -> DsPlan:
    """The whole plan. Total: unknown facts lead to DeepSpeed's defaults or to stated assumptions, never to an error."""
    stage, why, offload = choose_stage(inputs)
    now = pace(inputs, stage)
    sizes = _sizes(inputs, now)
    settings = (
        *_batch(inputs),
        *_precision(inputs),
        Setting(f"{ZERO}.stage", stage, "default", why),
        *_communication(inputs, stage, sizes),
        *_offload(offload),
        *_optimizer(inputs),
    )
    told, suggest = advice(inputs, stage, now, offload)
    return DsPlan(stage, settings, told, _alternatives(inputs, settings), now, suggest)


def choose_stage(inputs: DsInputs) -> tuple[int, str, bool]:
    """The smallest ZeRO stage that fits, why, and whether even stage 3 needs the host's memory.

    On CPU never 1 unasked: without the image's patch 0.12.6 reduces no gradient there and says nothing.
    """
    cpu = inputs.accelerator == "cpu"
    if inputs.stage in (1, 2, 3) and not (cpu and inputs.stage == 1):
        return inputs.stage, "yours", _fits(inputs, inputs.stage) is False and inputs.stage == 3 and not cpu
    if cpu:
        return 3, "CPU over gloo: a rehearsal, and 3 has every collective that a run on GPUs can have", False
    if _fits(inputs, 1) is None:
        return 3, "3 fits most: the size of the model or of the memory is not known (RIG_MODEL)", False
    for stage in (1, 2, 3):
        if _fits(inputs, stage):
            return stage, f"smallest stage that fits {_gb(inputs.gpu_memory_bytes)} GB", False
    return 3, f"even ZeRO-3 does not fit {_gb(inputs.gpu_memory_bytes)} GB: optimizer states go to the host", True


def _fits(inputs: DsInputs, stage: int) -> bool | None:
    return fits(stage, inputs.model, inputs.ranks, inputs.dtype_bytes, inputs.gpu_memory_bytes, inputs.tokens)


def _gb(size: int | None) -> str:
    return f"{(size or 0) / 1e9:.0f}"


def _batch(inputs: DsInputs) -> tuple[Setting, ...]:
    if inputs.hf_trainer:
        why = "the Trainer's own arguments decide the batch"
        names = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
        return tuple(Setting(name, "auto", "default", why) for name in names)
    why = "the smallest batch; yours to raise: the image does not choose a batch size"
    return (Setting("train_micro_batch_size_per_gpu", 1, "default", why),)


def _precision(inputs: DsInputs) -> tuple[Setting, ...]:
    if inputs.hf_trainer:
        why = "the Trainer's --bf16 and --fp16 decide"
        return (Setting("bf16.enabled", "auto", "default", why), Setting("fp16.enabled", "auto", "default", why))
    if inputs.accelerator == "cpu" or inputs.bf16 is None:
        why = "fp32: gloo has no bf16" if inputs.accelerator == "cpu" else "fp32: the GPUs' capability is not known"
        return (Setting("bf16.enabled", False, "default", why), Setting("fp16.enabled", False, "default", why))
    if inputs.bf16:
        why = "every GPU computes in bf16 (capability 8.0 or more)"
        return (Setting("bf16.enabled", True, "detection", why),)
    return (Setting("fp16.enabled", True, "detection", "a GPU below capability 8.0 has no bf16"),)


class _Sizes(NamedTuple):
    reduce: Size
    prefetch: Size
    persistence: Size
    live: Size
    reuse: Size


def _sizes(inputs: DsInputs, now: Pace) -> _Sizes:
    prefetch = prefetch_bucket(inputs, now)
    live = live_parameters(inputs, prefetch.elements)
    reuse = Size(0, "module order changes (MoE): nothing is kept for reuse") if inputs.model.dynamic else live
    return _Sizes(reduce_bucket(inputs, now), prefetch, persistence(inputs), live, reuse)


def _communication(inputs: DsInputs, stage: int, sizes: _Sizes) -> tuple[Setting, ...]:
    """The network keys. Those of stage 3 are planned for every stage, so that a user's own stage can be filled."""
    overlap = stage == 3
    race = inputs.version < OVERLAP_RACE.fixed
    no_overlap = f"buffers race below stage 3 before 0.14.3 ({OVERLAP_RACE.source})" if race else "opt-in below stage 3"
    even = sizes.reduce.elements + sizes.reduce.elements % 2
    rows: tuple[tuple[str, Any, str], ...] = (
        ("overlap_comm", overlap, "reduces while backward runs" if overlap else no_overlap),
        ("contiguous_gradients", True, "one flat buffer: no fragments, no copies"),
        ("reduce_scatter", True, "half the bytes of an all-reduce"),
        ("reduce_bucket_size", *sizes.reduce),
        ("allgather_bucket_size", even, "the reduce bucket, even: an odd value asserts; otherwise without effect"),
        ("stage3_prefetch_bucket_size", *sizes.prefetch),
        ("stage3_param_persistence_threshold", *sizes.persistence),
        ("stage3_max_live_parameters", *sizes.live),
        ("stage3_max_reuse_distance", *sizes.reuse),
    )
    return tuple(Setting(f"{ZERO}.{key}", value, "detection", why) for key, value, why in rows)


def _offload(offload: bool) -> tuple[Setting, ...]:
    if not offload:
        return ()
    why = "the model does not fit otherwise"
    return (
        Setting(f"{ZERO}.offload_optimizer.device", "cpu", "detection", why),
        Setting(f"{ZERO}.offload_optimizer.pin_memory", True, "detection", "page-locked: twice the copy rate"),
        Setting("zero_force_ds_cpu_optimizer", False, "default", "your own optimizer may be a torch one"),
    )


def _optimizer(inputs: DsInputs) -> tuple[Setting, ...]:
    found = [Setting("zero_allow_untested_optimizer", True, "default", "the optimizer is yours, whichever it is")]
    if inputs.accelerator == "cpu" or inputs.fused_adam is False:
        why = "no compiled FusedAdam here: torch's own Adam"
        found.append(Setting("optimizer.params.torch_adam", True, "detection", why))
    return tuple(found)


def generated(plan: DsPlan) -> dict[str, Any]:
    """The complete config of a plan, nested, for RIG_DS_CONFIG: it loads as it is.

    Keys that the stage does not read are left out, and torch_adam too: it belongs to an optimizer section, which the
    image does not write, since a learning rate is the user's.
    """
    from rig.dsconfig import FILLABLE, assemble

    kept = {}
    for name, setting in plan.named().items():
        key = name.removeprefix(f"{ZERO}.")
        if name != "optimizer.params.torch_adam" and plan.stage in FILLABLE.get(key, (plan.stage,)):
            kept[name] = setting
    return assemble(kept)


def _alternatives(inputs: DsInputs, settings: tuple[Setting, ...]) -> tuple[Alternative, ...]:
    h = inputs.model.hidden
    stage3 = next(setting.value for setting in settings if setting.name == f"{ZERO}.stage") == 3
    # runtime/zero/config.py of 0.12.6; transformers' HfTrainerDeepSpeedConfig writes these for "auto".
    known: dict[str, tuple[Any, Any]] = {
        "reduce_bucket_size": (500_000_000, h * h if h else None),
        "allgather_bucket_size": (500_000_000, None),
        "overlap_comm": (stage3, None),
        "contiguous_gradients": (True, None),
        "reduce_scatter": (True, None),
        "stage3_prefetch_bucket_size": (50_000_000, int(0.9 * h * h) if h else None),
        "stage3_param_persistence_threshold": (100_000, 10 * h if h else None),
        "stage3_max_live_parameters": (1_000_000_000, None),
        "stage3_max_reuse_distance": (1_000_000_000, None),
    }
    found = []
    for setting in settings:
        key = setting.name.removeprefix(f"{ZERO}.")
        if key in known:
            found.append(Alternative(setting.name, setting.value, *known[key]))
    return tuple(found)

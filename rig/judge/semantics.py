"""Values that load and then do something else than they say, or something that this DeepSpeed does wrong."""

from rig.dsconfig import AUTO, ZERO, stage_of
from rig.judge.ruling import REMOVE, Edit, Ruling
from rig.judge.site import Site
from rig.lean import Any, Iterator, Mapping
from rig.plan.ds_versions import FULL_BUFFER, HPZ, OVERLAP_RACE, ZERO_KEYS, written

_ZERO_SWITCHES = (
    "contiguous_gradients reduce_scatter allgather_partitions overlap_comm load_from_fp32_weights elastic_checkpoint "
    "cpu_offload cpu_offload_param cpu_offload_use_pin_memory ignore_unused_parameters legacy_stage1 "
    "round_robin_gradients zero_quantized_weights zero_quantized_gradients zero_quantized_nontrainable_weights "
    "memory_efficient_linear override_module_apply pipeline_loading_checkpoint use_multi_rank_bucket_allreduce "
    "mics_hierarchical_params_gather gather_16bit_weights_on_model_save stage3_gather_16bit_weights_on_model_save"
)
ZERO_SWITCHES = tuple(_ZERO_SWITCHES.split())
_TOP_SWITCHES = (
    "wall_clock_breakdown dump_state memory_breakdown sparse_gradients prescale_gradients disable_allgather "
    "zero_allow_untested_optimizer zero_force_ds_cpu_optimizer dataloader_drop_last graph_harvesting"
)
TOP_SWITCHES = tuple(_TOP_SWITCHES.split())
_ENABLED = (
    "fp16 bf16 bfloat16 amp flops_profiler tensorboard wandb csv_monitor comms_logger autotuning elasticity "
    "hybrid_engine progressive_layer_drop curriculum_learning eigenvalue data_efficiency nebula"
)
ENABLED = tuple(_ENABLED.split())
WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
COMM_DTYPES = ("fp16", "bfp16", "fp32")
COMM_SPELLINGS = {
    "bf16": "bfp16",
    "bfloat16": "bfp16",
    "torch.bfloat16": "bfp16",
    "float16": "fp16",
    "half": "fp16",
    "torch.float16": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "torch.float32": "fp32",
}


def strings(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """ "false" is a string and true in fp16; wall_clock_breakdown "true" raises TypeError."""
    zero = config.get(ZERO)
    places: list[tuple[tuple[str, ...], Any]] = [
        ((ZERO, key), zero[key]) for key in ZERO_SWITCHES if isinstance(zero, Mapping) and key in zero
    ]
    places += [((key,), config[key]) for key in TOP_SWITCHES if key in config]
    places += [
        ((key, "enabled"), config[key].get("enabled")) for key in ENABLED if isinstance(config.get(key), Mapping)
    ]
    for path, value in places:
        if value in (True, False, AUTO) or (value is None and path[-1] in ("overlap_comm", "enabled")):
            continue
        if not isinstance(value, str):
            text = f"{'.'.join(path)} is {value!r}, not true or false"[:120]
            yield Ruling("reject", "bool-string", text, ".".join(path), "Write true or false")
            continue
        name, meant = ".".join(path), WORDS.get(value.strip().lower())
        if meant is None:
            yield Ruling(
                "reject", "bool-string", f"{name} is '{value[:40]}', not true or false", name, "Write true or false"
            )
        else:
            word = str(meant).lower()
            text = f'{name} is the string "{value}", which counts as true in places: {word}'
            yield Ruling("fix", "bool-string", text, name, f"Write {word} without quotes", (Edit(path, meant),))


def precision(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """fp16 and bf16 together fail an assertion; which one is the user's to say."""
    on = {name: config[name].get("enabled") for name in ("fp16", "bf16") if isinstance(config.get(name), Mapping)}
    if len(on) == 2 and all(value and value != AUTO for value in on.values()):
        text = "fp16 and bf16 are both enabled"
        yield Ruling("reject", "dtype-both", text, "fp16.enabled", "Keep one: bf16 from capability 8.0 on, else fp16")


def precision_on_cpu(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """Without a GPU half precision ends in a traceback: torch 2.1 has no fp16 matrix product on CPUs, and gloo refuses
    bf16 ("Invalid scalar type"), so that it needs a single rank."""
    if not site.cpu:
        return
    reasons = {"fp16": "torch has no fp16 matrix product on CPUs"}
    if site.ranks > 1:
        reasons["bf16"] = "gloo carries no bf16"
    for name, why in reasons.items():
        section = config.get(name)
        if isinstance(section, Mapping) and section.get("enabled") is True:
            fix = f"Start the container with its GPUs (docker run --gpus all), or set {name}.enabled to false"
            yield Ruling("reject", "dtype-cpu", f"{name} is enabled and there is no GPU: {why}", f"{name}.enabled", fix)


def communication_dtype(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """DeepSpeed knows fp16, bfp16 and fp32, and raises for "bf16"."""
    for key in ("communication_data_type", "seq_parallel_comm_data_type"):
        value = config.get(key)
        if value is None or (isinstance(value, str) and value.lower() in COMM_DTYPES):
            continue
        if value == AUTO:
            text = f"{key} 'auto' raises, and nobody replaces it: left out, DeepSpeed takes the training dtype"
            yield Ruling("fix", "comm-dtype", text, key, "Leave it out", (Edit((key,), REMOVE),))
            continue
        meant = COMM_SPELLINGS.get(value.strip().lower()) if isinstance(value, str) else None
        known = ", ".join(COMM_DTYPES)
        if meant:
            text = f"{key} '{value}' is spelt '{meant}' in DeepSpeed"
            yield Ruling("fix", "comm-dtype", text, key, f"Write {meant}", (Edit((key,), meant),))
        else:
            yield Ruling("reject", "comm-dtype", f"{key} {value!r} is none of {known}", key, f"Write one of {known}")


def overlap(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """Below stage 3 the next bucket may overwrite a buffer that is still being reduced, when the link is slow."""
    zero = config.get(ZERO)
    if not isinstance(zero, Mapping) or stage_of(config) not in (1, 2) or zero.get("overlap_comm") is not True:
        return
    if site.version < OVERLAP_RACE.fixed:
        text = (
            f"overlap_comm with stage {stage_of(config)} races on {written(site.version)}: a gradient buffer may be "
            f"overwritten while it is reduced ({OVERLAP_RACE.source}, fixed in {written(OVERLAP_RACE.fixed)})"
        )
        edit = Edit((ZERO, "overlap_comm"), False)
        yield Ruling("fix", "zero12-overlap", text, f"{ZERO}.overlap_comm", "Set overlap_comm to false", (edit,))


def full_buffer(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """reduce_scatter false in stage 2 all-reduces the whole bucket buffer every micro step, filled or not."""
    zero = config.get(ZERO)
    if not isinstance(zero, Mapping) or stage_of(config) != 2 or zero.get("reduce_scatter") is not False:
        return
    if site.version < FULL_BUFFER.fixed:
        text = (
            f"reduce_scatter false with stage 2 sends the whole bucket, filled or not, on {written(site.version)} "
            f"({FULL_BUFFER.source}, fixed in {written(FULL_BUFFER.fixed)})"
        )
        edit = Edit((ZERO, "reduce_scatter"), True)
        yield Ruling("fix", "zero2-full-buffer", text, f"{ZERO}.reduce_scatter", "Set reduce_scatter to true", (edit,))


def partition(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """hpZ keeps shards inside a node; it must divide the world, and does not converge before 0.13.5."""
    zero = config.get(ZERO)
    size = zero.get("zero_hpz_partition_size") if isinstance(zero, Mapping) else None
    key = f"{ZERO}.zero_hpz_partition_size"
    if not isinstance(size, int) or isinstance(size, bool) or size <= 1 or stage_of(config) != 3:
        return
    if size <= site.ranks and site.ranks % size:
        text = f"zero_hpz_partition_size {size} must divide the world of {site.ranks} ranks"
        fix = f"Use a divisor of {site.ranks}, usually the GPUs of a node ({site.gpus_per_node})"
        yield Ruling("reject", "hpz-world", text, key, fix)
    elif ZERO_KEYS["zero_hpz_partition_size"] <= site.version < HPZ.fixed and not site.allow_hpz:
        text = (
            f"zero_hpz_partition_size {size} does not converge on {written(site.version)} ({HPZ.source}, fixed in "
            f"{written(HPZ.fixed)}): 1"
        )
        edit = Edit((ZERO, "zero_hpz_partition_size"), 1)
        yield Ruling("fix", "hpz-broken", text, key, "Leave it out on this version", (edit,))
    elif size > site.ranks:
        text = f"zero_hpz_partition_size {size} is more than {site.ranks} ranks: DeepSpeed reduces it without a word"
        yield Ruling("warn", "hpz-world", text, key, f"Use at most {site.ranks}")


def offload(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """Settings that a stage does not read are accepted in silence."""
    zero, stage = config.get(ZERO), stage_of(config)
    if not isinstance(zero, Mapping):
        return
    param, adam = zero.get("offload_param"), zero.get("offload_optimizer")
    if isinstance(param, Mapping) and param.get("device") not in (None, "none", AUTO) and stage < 3:
        key = f"{ZERO}.offload_param"
        yield Ruling(
            "warn", "key-ignored", "offload_param has no effect below stage 3", key, "Remove it, or use stage 3"
        )
    ratio = adam.get("ratio") if isinstance(adam, Mapping) else None
    if isinstance(ratio, (int, float)) and ratio < 1 and stage < 3:
        key = f"{ZERO}.offload_optimizer.ratio"
        yield Ruling("warn", "key-ignored", "offload_optimizer.ratio has no effect below stage 3", key, "Remove it")
    theirs = [key for key in zero if key.startswith("stage3_") and "_on_model_save" not in key]
    if theirs and stage < 3:
        text = f"{', '.join(theirs)}: no effect below stage 3"
        yield Ruling("warn", "key-ignored", text, f"{ZERO}.{theirs[0]}", "Remove them, or use stage 3")


def torch_adam(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """FusedAdam is compiled at the start; without a GPU, or without nvcc and a built op, that fails."""
    section = config.get("optimizer")
    if not isinstance(section, Mapping) or str(section.get("type")).lower() not in ("adam", "adamw"):
        return
    params = section.get("params")
    given = params.get("torch_adam") if isinstance(params, Mapping) else None
    if (site.cpu or site.fused_adam is False) and given is not True:
        text = "no compiled FusedAdam here: torch's own Adam (torch_adam true)"
        edit = Edit(("optimizer", "params", "torch_adam"), True)
        yield Ruling("fix", "torch-adam", text, "optimizer.params.torch_adam", "Set torch_adam to true", (edit,))


def gradient_norm(config: Mapping[str, Any], site: Site) -> Iterator[Ruling]:
    """max_grad_norm among the optimizer's parameters raises; DeepSpeed's name is gradient_clipping."""
    section = config.get("optimizer")
    params = section.get("params") if isinstance(section, Mapping) else None
    if not isinstance(params, Mapping) or not isinstance(params.get("max_grad_norm"), (int, float)):
        return
    norm, clip = params["max_grad_norm"], config.get("gradient_clipping")
    key = "optimizer.params.max_grad_norm"
    if clip not in (None, AUTO, norm):
        text = f"{key} {norm} and gradient_clipping {clip} contradict each other, and the first raises"
        yield Ruling("reject", "key-migrate", text, key, "Keep gradient_clipping")
        return
    edits = (Edit(("optimizer", "params", "max_grad_norm"), REMOVE), Edit(("gradient_clipping",), norm))
    text = f"{key} raises in DeepSpeed: gradient_clipping {norm}"
    yield Ruling("fix", "key-migrate", text, key, "Use gradient_clipping", edits)


RULES = (
    strings,
    precision,
    precision_on_cpu,
    communication_dtype,
    overlap,
    full_buffer,
    partition,
    offload,
    torch_adam,
    gradient_norm,
)

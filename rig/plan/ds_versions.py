"""Which DeepSpeed knows which key, and which bugs it has. Read from the repository's release tags."""

from rig.lean import NamedTuple

Version = tuple[int, int, int]
PINNED: Version = (0, 12, 6)
LATER: Version = (999, 0, 0)  # not fixed in any release known here

# Keys of zero_optimization (and of its offload sections) by the first release that accepts them. Older pydantic models
# forbid extra keys, so an unknown key raises.
ZERO_KEYS: dict[str, Version] = {
    key: since
    for since, keys in (
        (
            (0, 7, 0),
            "stage contiguous_gradients reduce_scatter reduce_bucket_size allgather_partitions allgather_bucket_size "
            "overlap_comm load_from_fp32_weights elastic_checkpoint offload_param offload_optimizer sub_group_size "
            "cpu_offload_param cpu_offload_use_pin_memory cpu_offload prefetch_bucket_size stage3_prefetch_bucket_size "
            "param_persistence_threshold stage3_param_persistence_threshold model_persistence_threshold "
            "stage3_model_persistence_threshold max_live_parameters stage3_max_live_parameters max_reuse_distance "
            "stage3_max_reuse_distance gather_16bit_weights_on_model_save stage3_gather_16bit_weights_on_model_save "
            "stage3_gather_fp16_weights_on_model_save ignore_unused_parameters legacy_stage1 round_robin_gradients",
        ),
        ((0, 9, 0), "memory_efficient_linear"),
        ((0, 9, 2), "mics_shard_size mics_hierarchical_params_gather"),
        ((0, 10, 0), "zero_hpz_partition_size zero_quantized_weights zero_quantized_gradients"),
        ((0, 10, 1), "override_module_apply pipeline_loading_checkpoint"),
        ((0, 10, 2), "zero_quantized_nontrainable_weights"),
        ((0, 12, 4), "use_multi_rank_bucket_allreduce"),
        ((0, 14, 3), "use_all_reduce_for_fetch_params stage3_use_all_reduce_for_fetch_params"),
        ((0, 16, 0), "module_granularity_threshold stage3_module_granularity_threshold"),
        ((0, 16, 2), "zeropp_loco_param"),
        ((0, 16, 4), "log_trace_cache_warnings"),
        ((0, 17, 5), "zenflow"),
        ((0, 17, 6), "enable_sanity_checks"),
        ((0, 18, 0), "leaf_module"),
        ((0, 18, 5), "allgather_sequential stage3_allgather_sequential"),
        ((0, 18, 9), "save_muon_momentum_buffer_in_memory"),
    )
    for key in keys.split()
}
OFFLOAD_KEYS: dict[str, dict[str, Version]] = {
    "offload_param": dict.fromkeys(
        ("device", "nvme_path", "buffer_count", "buffer_size", "max_in_cpu", "pin_memory"), (0, 7, 0)
    ),
    "offload_optimizer": {
        **dict.fromkeys(
            ("device", "nvme_path", "buffer_count", "pin_memory", "pipeline_read", "pipeline_write", "fast_init"),
            (0, 7, 0),
        ),
        "ratio": (0, 12, 3),
        "super_offload": (0, 18, 0),
        "cpuadam_cores_perc": (0, 18, 0),
    },
}
# Sections and keys of the top level; nothing there is checked by DeepSpeed itself.
_TOP = (
    "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps optimizer scheduler fp16 bf16 "
    "bfloat16 amp zero_optimization zero_allow_untested_optimizer zero_force_ds_cpu_optimizer gradient_clipping "
    "steps_per_print wall_clock_breakdown dump_state memory_breakdown sparse_gradients prescale_gradients "
    "gradient_predivide_factor communication_data_type seq_parallel_comm_data_type disable_allgather vocabulary_size "
    "activation_checkpointing flops_profiler tensorboard wandb csv_monitor comms_logger autotuning elasticity aio "
    "sparse_attention pipeline progressive_layer_drop eigenvalue curriculum_learning data_efficiency checkpoint "
    "data_types dataloader_drop_last nebula weight_quantization quantize_training compression_training hybrid_engine "
    "graph_harvesting use_data_before_expert_parallelism allgather_size"
)
TOP_KEYS = frozenset(_TOP.split())
TOP_SINCE: dict[str, Version] = {
    "compile": (0, 14, 0),
    "comet": (0, 14, 3),
    "torch_autocast": (0, 17, 2),
    "zenflow": (0, 17, 5),
}


class Bug(NamedTuple):
    """A fault of DeepSpeed before `fixed`, with where it is written down."""

    fixed: Version
    source: str


OVERLAP_RACE = Bug((0, 14, 3), "deepspeedai/DeepSpeed PR 5606")
FULL_BUFFER = Bug((0, 14, 1), "deepspeedai/DeepSpeed PR 5268")
HPZ = Bug((0, 13, 5), "deepspeedai/DeepSpeed#4851, #5059")
SSH_PORT = Bug((0, 14, 1), "deepspeedai/DeepSpeed PR 5318")


def parse_version(text: str | None) -> Version:
    """`0.12.6`, `0.12.6+abc`, `0.12` as three numbers; PINNED for anything else."""
    parts = (text or "").split("+", 1)[0].split(".")[:3]
    if not parts or not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        return PINNED
    major, minor, patch = (*(int(part) for part in parts), 0, 0)[:3]
    return major, minor, patch


def written(version: Version) -> str:
    return ".".join(map(str, version))

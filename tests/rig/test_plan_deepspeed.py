"""The DeepSpeed plan: published figures come out of the formulas, caps hold, bugs are never written."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rig.machine import Gpu, Hca, Limits, Machine, NetDev, Port
from rig.plan import SOURCES
from rig.plan.deepspeed import DsInputs, DsPlan, choose_stage, generated, plan_deepspeed
from rig.plan.ds_advice import critical_tokens, times
from rig.plan.ds_inputs import Link, bf16_everywhere, inputs_of, link_of
from rig.plan.ds_link import Links, cost
from rig.plan.ds_memory import states
from rig.plan.ds_model import Model
from rig.plan.ds_rates import sustained_flops

ZERO = "zero_optimization."
LLAMA_13B = Model(hidden=5120, params=13_000_000_000, layers=40, vocab=32000, intermediate=13824)
LLAMA_7B = Model(hidden=4096, params=7_000_000_000, layers=32, vocab=32000, intermediate=11008)
GPT_175B = Model(hidden=12288, params=175_000_000_000, layers=96, vocab=50257, intermediate=49152)


def a100(nodes: int, gbps: float, nics: int, transport: str, model: Model, tokens: int) -> DsInputs:
    links = Links(nodes, 8, gbps, nics, transport, intra_bytes=225e9, nvlink=True)
    return DsInputs(links, model, 80_000_000_000, 156e12, tokens=tokens, stage=3, bf16=True)


RTX_4090 = DsInputs(Links(1, 8, intra_bytes=10e9), LLAMA_7B, 24_000_000_000, 82.5e12, tokens=2048, stage=3, bf16=True)
# alpha us, bandwidth GB/s, reduce and prefetch in million elements, critical tokens, seconds of communication, compute
TABLE = {
    "8x RTX 4090, 7B": (RTX_4090, 78, 10, 49, 98, 5400, 3.7, 1.39),
    "2x8 A100, 13B, 10 Gbps": (a100(2, 10, 1, "tcp", LLAMA_13B, 4096), 160, 1.06, 115, 317, 103_000, 69, 2.73),
    "2x8 A100, 13B, 50 Gbps": (a100(2, 50, 1, "tcp", LLAMA_13B, 4096), 160, 4.4, 115, 317, 25_000, 16.7, 2.73),
    "2x8 A100, 13B, 200 Gbps": (a100(2, 200, 1, "rdma", LLAMA_13B, 4096), 106, 20, 26, 317, 5500, 3.66, 2.73),
    "2x8 A100, 13B, 8x200": (a100(2, 200, 8, "rdma", LLAMA_13B, 4096), 106, 160, 26, 71, 690, 0.457, 2.73),
    "128x8 A100, 175B, 200": (a100(128, 200, 1, "rdma", GPT_175B, 2048), 5600, 20, 500, 1000, 5800, 52, 18.4),
    "128x8 A100, 175B, 8x200": (a100(128, 200, 8, "rdma", GPT_175B, 2048), 5600, 160, 450, 817, 730, 6.6, 18.4),
    "128x8 A100, 13B, 8x200": (a100(128, 200, 8, "rdma", LLAMA_13B, 4096), 5600, 160, 450, 450, 730, 0.49, 2.73),
}


def value(plan: DsPlan, key: str) -> Any:
    return plan.named()[ZERO + key].value


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_known_machines_comes_out(name: str) -> None:
    inputs, alpha, bandwidth, reduce, prefetch, tokens, moved, computed = TABLE[name]
    plan = plan_deepspeed(inputs)
    took = times(inputs, plan.pace)
    found = (
        plan.pace.cost.alpha_s * 1e6,
        plan.pace.cost.bandwidth / 1e9,
        value(plan, "reduce_bucket_size") / 1e6,
        value(plan, "stage3_prefetch_bucket_size") / 1e6,
        critical_tokens(inputs, plan.pace),
        took.communication_s,
        took.compute_s,
    )
    assert found == pytest.approx((alpha, bandwidth, reduce, prefetch, tokens, moved, computed), rel=0.02)


def test_a_slow_link_is_named_with_what_it_needs_and_what_there_is() -> None:
    plan = plan_deepspeed(a100(2, 50, 1, "tcp", LLAMA_13B, 4096))
    (finding,) = plan.advice
    assert finding.id == "comm-bound"
    assert "25k tokens" in finding.text and "you have 4096" in finding.text
    assert "2 nodes will be slower than one" in finding.text
    assert plan.suggest["stage"] == 1 and plan.suggest["gradient_accumulation_steps"] >= 32


def test_a_fast_link_is_not_complained_about() -> None:
    assert plan_deepspeed(a100(2, 200, 8, "rdma", LLAMA_13B, 4096)).advice == ()


def test_where_zero_1_does_not_fit_sharding_inside_nodes_is_named_as_unsafe() -> None:
    model = Model(params=72_000_000_000)
    inputs = a100(4, 100, 1, "rdma", model, 4096)._replace(gpu_memory_bytes=40_000_000_000)
    plan = plan_deepspeed(inputs)
    assert plan.suggest == {}
    assert "hpZ" in plan.advice[0].fix and "unsafe on 0.12.6" in plan.advice[0].fix


def test_with_unknown_tokens_only_a_link_beyond_all_use_is_named() -> None:
    slow = a100(2, 10, 1, "tcp", LLAMA_13B, 4096)._replace(tokens=None)
    fast = a100(2, 200, 1, "rdma", LLAMA_13B, 4096)._replace(tokens=None)
    assert [finding.id for finding in plan_deepspeed(slow).advice] == ["comm-bound"]
    assert plan_deepspeed(fast).advice == ()


def test_two_rates_give_two_files_and_a_measured_rate_replaces_the_nominal() -> None:
    slow, fast = (a100(2, gbps, 8, "rdma", LLAMA_13B, 4096)._replace(tokens=None) for gbps in (25, 400))
    assert generated(plan_deepspeed(slow)) != generated(plan_deepspeed(fast))
    measured = slow._replace(links=slow.links._replace(measured_bytes=320e9, measured_alpha_s=106e-6))
    nominal = fast._replace(links=fast.links._replace(intra_bytes=1e12))
    assert generated(plan_deepspeed(measured)) == generated(plan_deepspeed(nominal))


@pytest.mark.parametrize(
    ("params", "memory", "stage", "offload"),
    [(1e9, 80e9, 1, False), (7e9, 47e9, 1, False), (7e9, 34e9, 2, False), (7e9, 24e9, 3, False), (70e9, 40e9, 3, True)],
)
def test_the_smallest_stage_that_fits_is_taken(params: float, memory: float, stage: int, offload: bool) -> None:
    inputs = DsInputs(Links(1, 8), Model(params=int(params)), int(memory), bf16=True)
    found, why, offloaded = choose_stage(inputs)
    assert (found, offloaded) == (stage, offload), why
    config = generated(plan_deepspeed(inputs))
    assert ("offload_optimizer" in config["zero_optimization"]) is offload


def test_states_follow_the_published_formulas() -> None:
    gb = 7e9
    assert states(0, 7_000_000_000, 8, 2) == 16 * gb
    assert states(1, 7_000_000_000, 8, 2) == 4 * gb + 12 * gb / 8
    assert states(2, 7_000_000_000, 8, 2) == 2 * gb + 14 * gb / 8
    assert states(3, 7_000_000_000, 8, 2) == 16 * gb / 8 + 4 * gb / 8
    assert states(3, 7_000_000_000, 8, 4) == 16 * gb / 8


def test_on_cpu_the_plan_is_fp32_with_torch_adam_and_never_stage_1() -> None:
    for wanted in (None, 1, 2, 3):
        plan = plan_deepspeed(inputs_of(Machine(), nodes=2, stage=wanted, link=Link(0.2)))
        assert plan.stage == (2 if wanted == 2 else 3)
        assert plan.named()["optimizer.params.torch_adam"].value is True
        config = generated(plan)
        assert config["bf16"]["enabled"] is False and config["fp16"]["enabled"] is False
        assert config["zero_optimization"]["reduce_bucket_size"] < 2_000_000
        assert "optimizer" not in config


def test_half_precision_follows_the_gpus() -> None:
    assert bf16_everywhere((Gpu(0, capability=(8, 0)), Gpu(1, capability=(9, 0)))) is True
    assert bf16_everywhere((Gpu(0, capability=(8, 0)), Gpu(1, capability=(7, 5)))) is False
    assert bf16_everywhere((Gpu(0, capability=(8, 0)), Gpu(1))) is None
    assert generated(plan_deepspeed(DsInputs(bf16=True)))["bf16"] == {"enabled": True}
    assert generated(plan_deepspeed(DsInputs(bf16=False)))["fp16"] == {"enabled": True}
    unknown = plan_deepspeed(DsInputs())
    assert generated(unknown)["bf16"] == {"enabled": False}
    assert [finding.id for finding in unknown.advice] == ["precision"]


def test_the_trainer_keeps_batch_and_precision() -> None:
    config = generated(plan_deepspeed(DsInputs(hf_trainer=True, bf16=True)))
    assert config["train_micro_batch_size_per_gpu"] == "auto"
    assert config["bf16"] == config["fp16"] == {"enabled": "auto"}
    assert isinstance(config["zero_optimization"]["reduce_bucket_size"], int)


def test_the_module_order_of_experts_switches_prefetch_off() -> None:
    plan = plan_deepspeed(DsInputs(model=LLAMA_7B._replace(dynamic=True), stage=3, bf16=True))
    assert value(plan, "stage3_prefetch_bucket_size") == 0
    assert value(plan, "stage3_max_reuse_distance") == 0


def test_what_deepspeed_and_the_trainer_would_have_done_is_known() -> None:
    plan = plan_deepspeed(a100(2, 200, 1, "rdma", LLAMA_13B, 4096))
    told = {row.key: (row.deepspeed, row.hf_auto) for row in plan.alternatives}
    assert told[ZERO + "reduce_bucket_size"] == (500_000_000, 5120 * 5120)
    assert told[ZERO + "stage3_prefetch_bucket_size"] == (50_000_000, 23_592_960)
    assert told[ZERO + "stage3_param_persistence_threshold"] == (100_000, 51_200)


counts = st.integers(1, 64)
inputs_strategy = st.builds(
    DsInputs,
    links=st.builds(
        Links,
        nodes=counts,
        gpus_per_node=st.integers(1, 16),
        nic_gbps=st.none() | st.floats(0.01, 3200),
        nics=st.integers(1, 16),
        transport=st.sampled_from(("tcp", "rdma")),
        intra_bytes=st.none() | st.floats(1e8, 1e12),
        nvlink=st.booleans(),
    ),
    model=st.builds(
        Model,
        hidden=st.none() | st.integers(1, 32768),
        params=st.none() | st.integers(1, 10**13),
        layers=st.none() | st.integers(1, 200),
        dynamic=st.booleans(),
    ),
    gpu_memory_bytes=st.none() | st.integers(1 << 30, 1 << 39),
    flops=st.none() | st.floats(1e9, 2e15),
    dtype_bytes=st.sampled_from((2, 4)),
    tokens=st.none() | st.integers(1, 1 << 20),
    stage=st.sampled_from((None, 1, 2, 3)),
    accelerator=st.sampled_from(("cuda", "cpu")),
    bf16=st.sampled_from((None, True, False)),
)


@settings(max_examples=60, deadline=None)
@given(inputs_strategy)
def test_every_plan_is_whole_sane_and_free_of_known_bugs(inputs: DsInputs) -> None:
    plan = plan_deepspeed(inputs)
    zero = generated(plan)["zero_optimization"]
    assert zero["overlap_comm"] is (plan.stage == 3)
    assert zero.get("reduce_scatter", True) is True
    assert "zero_hpz_partition_size" not in zero
    for key in ("reduce_bucket_size", "allgather_bucket_size", "stage3_prefetch_bucket_size"):
        size = value(plan, key)
        assert isinstance(size, int) and not isinstance(size, bool) and size >= 0 and size % 2 == 0
    if plan.pace.room:
        cap = plan.pace.room.reduce_cap / inputs.dtype_bytes
        assert value(plan, "reduce_bucket_size") <= max(65536, cap)
        assert value(plan, "stage3_prefetch_bucket_size") <= max(
            65536, plan.pace.room.prefetch_cap / inputs.dtype_bytes
        )
    hidden, room = inputs.model.hidden, plan.pace.room
    if hidden and inputs.model.params and hidden**2 <= inputs.model.params and room is None:
        assert value(plan, "reduce_bucket_size") >= min(hidden**2, inputs.model.params) - 65536
    for setting in plan.settings:
        assert setting.source in SOURCES and setting.reason
    assert plan_deepspeed(inputs) == plan


@settings(max_examples=40, deadline=None)
@given(inputs_strategy, st.floats(1.0, 8.0))
def test_more_memory_never_shrinks_a_bucket(inputs: DsInputs, factor: float) -> None:
    base = inputs._replace(stage=3, gpu_memory_bytes=inputs.gpu_memory_bytes or 1 << 34)
    more = base._replace(gpu_memory_bytes=int((base.gpu_memory_bytes or 0) * factor))
    for key in ("reduce_bucket_size", "stage3_prefetch_bucket_size"):
        assert value(plan_deepspeed(more), key) >= value(plan_deepspeed(base), key)


def test_machine_facts_become_inputs() -> None:
    gpus = tuple(
        Gpu(i, model="NVIDIA A100-SXM4-80GB", memory_bytes=85_899_345_920, capability=(8, 0), nvlinks=12)
        for i in range(8)
    )
    hcas = tuple(
        Hca(f"mlx5_{i}", opens=True, ports=(Port(f"mlx5_{i}", 1, state="ACTIVE", rate_gbps=200.0),)) for i in range(8)
    )
    inputs = inputs_of(Machine(gpus=gpus, hcas=hcas), nodes=2)
    assert (inputs.links.nic_gbps, inputs.links.nics, inputs.links.transport) == (200.0, 8, "rdma")
    assert inputs.links.intra_bytes == pytest.approx(225e9)
    assert (inputs.flops, inputs.bf16, inputs.accelerator, inputs.ranks) == (156e12, True, "cuda", 16)


def test_without_rdma_the_default_route_is_the_link() -> None:
    devs = (
        NetDev("eth1", kind="physical", up=True, speed_mbps=100000),
        NetDev("eth0", speed_mbps=10000, default_route=True),
    )
    assert link_of(Machine(netdevs=devs)) == Link(10.0, 1, "tcp")
    assert link_of(Machine()) == Link()
    cpu = inputs_of(Machine(limits=Limits(memory_bytes=4 << 30)), gpus_per_node=2)
    assert (cpu.accelerator, cpu.links.gloo, cpu.gpu_memory_bytes) == ("cpu", True, 2 << 30)


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("NVIDIA A100-SXM4-80GB", 156),
        ("NVIDIA A10G", 35),
        ("NVIDIA A10", 62.5),
        ("NVIDIA H100 PCIe", 378),
        ("NVIDIA H100 80GB HBM3", 494.5),
        ("NVIDIA GeForce RTX 4090", 82.5),
        ("NVIDIA RTX 6000 Ada Generation", 182),
        ("NVIDIA L40S", 181),
        ("Tesla T4", 32.5),
    ],
)
def test_gpu_names_are_matched_by_whole_words(name: str, tflops: float) -> None:
    assert sustained_flops(name) == tflops * 1e12
    assert sustained_flops("Matrox G200") is None


def test_the_cost_of_one_rank_is_no_transfer() -> None:
    assert cost(Links()).beta == 0


def test_a_figure_next_to_nothing_counts_as_unknown() -> None:
    """5e-324 bytes/s would make one token's time infinite."""
    tiny = DsInputs(Links(1, 2, measured_bytes=5e-324, measured_alpha_s=5e-324), flops=1e9)
    assert plan_deepspeed(tiny) == plan_deepspeed(DsInputs(Links(1, 2), flops=1e9))


def test_on_cpu_one_message_reduces_the_whole_model() -> None:
    model = Model(hidden=128, params=1_572_864, layers=8, vocab=1)
    inputs = inputs_of(Machine(), nodes=2, link=Link(0.5), model=model, tokens=64, stage=3)
    assert value(plan_deepspeed(inputs), "reduce_bucket_size") == 1_572_864


def test_a_model_of_few_blocks_does_not_wait_for_a_whole_one_on_a_slow_link() -> None:
    model = Model(hidden=384, params=1_769_472, layers=1, vocab=1)
    inputs = inputs_of(Machine(), nodes=2, link=Link(0.01), model=model, tokens=64, stage=3)
    prefetch = value(plan_deepspeed(inputs), "stage3_prefetch_bucket_size")
    assert prefetch < 12 * 384**2 / 2 and prefetch >= 4 * 384**2 - 65_536


def test_on_cpu_small_matrices_stay_whole() -> None:
    inputs = inputs_of(Machine(), nodes=4, link=Link(0.05), model=Model(hidden=128, layers=8), tokens=64, stage=3)
    assert value(plan_deepspeed(inputs), "stage3_param_persistence_threshold") == 100_000

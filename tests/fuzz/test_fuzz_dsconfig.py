"""Config files that nobody would write: no crash, no hang, no setting made from garbage.

RIG_FUZZ is the number of examples (default 300).
"""

import json
import os
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rig.dsconfig import BATCH_KEYS, FILLABLE, INTEGER_ZERO_KEYS, ConfigError, fill, parse_config, render
from rig.judge import judge_config, judge_config_text, judge_deepspeed_env, judge_hostfile
from rig.judge.ruling import VERDICTS
from rig.plan.deepspeed import DsInputs, plan_deepspeed
from rig.plan.ds_versions import TOP_KEYS, ZERO_KEYS
from rig.scriptargs import look_at_script

EXAMPLES = int(os.environ.get("RIG_FUZZ") or 300)
fuzzed = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
PLANNED = plan_deepspeed(DsInputs()).named()
WORLD = {"nodes": 2, "gpus_per_node": 8, "gpu_mem_gb": 80, "hidden": 4096, "sm": 80}

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-5, 10**12)
    | st.floats()
    | st.sampled_from(("auto", "Auto", "5e8", "true", "false", "cpu", "", "AdamW", "bf16", "Infinity"))
    | st.text(max_size=12)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(sorted(TOP_KEYS)) | st.text(max_size=16)
zero_names = (
    st.sampled_from(sorted(ZERO_KEYS))
    | st.sampled_from(("cpu_offload_params", "reduce_bucket", "x"))
    | st.text(max_size=8)
)
sections = st.fixed_dictionaries(
    {},
    optional={
        "zero_optimization": st.dictionaries(zero_names, values, max_size=6) | values,
        "fp16": st.dictionaries(st.sampled_from(("enabled", "enable", "loss_scale")), scalars) | values,
        "bf16": st.dictionaries(st.just("enabled"), scalars) | values,
        "optimizer": st.fixed_dictionaries(
            {},
            optional={
                "type": scalars,
                "params": st.dictionaries(st.sampled_from(("lr", "max_grad_norm", "torch_adam")), scalars) | values,
            },
        )
        | values,
        "gradient_clipping": scalars,
        **dict.fromkeys(BATCH_KEYS, scalars),
    },
)
configs = st.builds(lambda a, b: {**a, **b}, st.dictionaries(names, values, max_size=3), sections)
bits = st.sampled_from(
    (
        *"{}[],:\"'#\n \t",
        "//",
        "/*",
        "*/",
        "'''",
        "True",
        "None",
        "NaN",
        "Infinity",
        "CONFIG_X",
        "${A}",
        "{{b}}",
        "1e9",
        "-",
        "\\",
        "\ufeff",
        "stage",
        '"stage"',
        '"zero_optimization"',
        "3",
        "auto",
    )
)
texts = st.lists(bits | st.text(max_size=3), max_size=30).map("".join)
worlds = st.dictionaries(
    st.sampled_from(
        (
            *WORLD,
            "hf_trainer",
            "model_params",
            "moe",
            "deepspeed",
            "link_gbps",
            "layers",
            "dist_initialised",
            "hf_per_device_batch",
            "model_config",
            "tokens",
        )
    ),
    values,
    max_size=5,
)


def is_plain_json(value: Any) -> bool:
    return bool(json.loads(json.dumps(value, allow_nan=False)) == value)


@fuzzed
@given(configs, st.just(WORLD) | worlds)
def test_any_config_is_judged_and_what_is_written_loads(config: dict[str, Any], world: dict[str, Any]) -> None:
    told = judge_config(config, world)
    assert told.verdict in VERDICTS
    assert all(finding.text and finding.outcome for finding in told.findings)
    if told.verdict == "reject":
        assert told.output is None
        return
    written = render(told.output)
    assert parse_config(written, "x") == json.loads(written)
    zero = json.loads(written).get("zero_optimization", {})
    for key in INTEGER_ZERO_KEYS & set(zero):
        assert zero[key] == "auto" or (isinstance(zero[key], int) and not isinstance(zero[key], bool)), key
    again = judge_config(told.output, world)
    assert again.verdict in ("accept", "warn"), again.findings


@fuzzed
@given(configs)
def test_filling_touches_only_network_keys_that_were_open(config: dict[str, Any]) -> None:
    filled, changes = fill(config, PLANNED)
    for change in changes:
        section, _, key = change.key.partition(".")
        assert change.before in (None, "auto")
        assert section == "optimizer" or key in FILLABLE or f"stage3_{key}" in FILLABLE
    again, more = fill(filled, PLANNED)
    assert more == () and repr(again) == repr(filled)


@fuzzed
@given(texts)
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    try:
        config = parse_config(text, "ds.json")
    except ConfigError as error:
        assert str(error).startswith("ds.json:")
        assert error.line is None or 1 <= error.line <= text.count("\n") + 1
    else:
        assert isinstance(config, dict)
    told = judge_config_text(text, WORLD, "ds.json")
    assert told.verdict in VERDICTS
    if told.verdict != "reject":
        assert is_plain_json(told.output)
        json.loads(render(told.output))


@fuzzed
@given(st.dictionaries(st.text(max_size=8), values, max_size=4))
def test_strict_json_is_read_as_json_reads_it(config: dict[str, Any]) -> None:
    try:
        text = json.dumps(config, allow_nan=False)
    except ValueError:
        return
    assert parse_config(text, "x") == json.loads(text)


@fuzzed
@given(texts, st.just(WORLD) | worlds)
def test_any_hostfile_and_environment_file_is_judged(text: str, world: dict[str, Any]) -> None:
    for told in (judge_hostfile(text, world), judge_deepspeed_env(text, world)):
        assert told.verdict in VERDICTS
        if told.verdict == "fix":
            assert isinstance(told.output, str)
    fixed = judge_hostfile(text, {})
    if fixed.verdict == "fix":
        assert judge_hostfile(fixed.output, {}).verdict in ("accept", "warn")
    safe = judge_deepspeed_env(text, {})
    if safe.verdict == "fix":
        assert judge_deepspeed_env(safe.output, {}).verdict == "accept"


@fuzzed
@given(
    st.lists(
        st.sampled_from(
            (
                "p.add_argument(",
                '"--deepspeed"',
                ")",
                "(",
                "\n",
                "import x",
                "def f():",
                " ",
                "=",
                "'",
                "lambda: ",
                "[",
                "]",
            )
        ),
        max_size=40,
    ).map("".join)
    | st.text(max_size=40)
)
def test_any_script_is_looked_at(text: str) -> None:
    facts = look_at_script(text)
    assert facts is None or isinstance(facts.options, tuple)

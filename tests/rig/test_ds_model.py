"""What is known of the user's model, and from where."""

import pytest

from rig.plan.ds_model import Model, ModelError, model_of_config, parse_model


def test_a_model_is_written_in_a_line_or_a_file() -> None:
    assert parse_model("hidden=4096, params=7e9,layers=32") == Model(4096, 7_000_000_000, 32)
    assert parse_model("params=1.5B").params == 1_500_000_000
    assert parse_model("hidden=4096,layers=32,moe=1").dynamic
    assert parse_model("hidden=4096,params=7b").layers == 33
    assert parse_model("") == Model()
    for bad in ("hidden", "hidden=x", "color=red", "params=-1", "params=1e99", "params=nan", "{broken", "[1]"):
        with pytest.raises(ModelError):
            parse_model(bad)


def test_a_config_json_is_counted_nested_or_not() -> None:
    llama = {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32000,
        "hidden_act": "silu",
    }
    found = model_of_config(llama)
    assert found.params == pytest.approx(6.74e9, rel=0.01)
    assert (found.hidden, found.layers, found.dynamic) == (4096, 32, False)
    assert (
        model_of_config({"model_type": "llava", "vision_config": {"hidden_size": 1024}, "text_config": llama}) == found
    )
    mixtral = llama | {"num_local_experts": 8, "intermediate_size": 14336, "num_key_value_heads": 8}
    assert model_of_config(mixtral).dynamic
    assert model_of_config(mixtral).params == pytest.approx(46.7e9, rel=0.01)
    gpt2 = {"n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "tie_word_embeddings": True}
    assert model_of_config(gpt2).params == pytest.approx(124e6, rel=0.01)
    assert model_of_config({"hidden_sizes": [64, 512, 128]}).hidden == 512
    assert model_of_config({"hidden_size": "big", "num_hidden_layers": True}) == Model()

"""What the boot page's reader of scripts must see in the programs that users copy."""

from pathlib import Path

import pytest

from rig.scriptargs import ScriptFacts, look_at_script

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def facts(name: str) -> ScriptFacts:
    found = look_at_script((EXAMPLES / name).read_text(encoding="utf-8"))
    assert found is not None
    return found


def test_pretrain_is_given_the_generated_config() -> None:
    found = facts("pretrain.py")
    assert found.config_option == "--deepspeed_config"
    assert not found.config_in_code  # a config handed over in the code would be left alone


def test_ddp_is_started_without_a_deepspeed_config() -> None:
    found = facts("ddp.py")
    assert found.config_option is None
    assert not found.config_in_code


@pytest.mark.parametrize("name", ["pretrain.py", "ddp.py"])
def test_examples_leave_auto_to_nobody(name: str) -> None:
    found = facts(name)
    assert not found.hf_trainer and not found.accelerate


def test_readme_names_every_example_and_only_these() -> None:
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    named = {line.split("`")[1] for line in readme.splitlines() if line.startswith("## `")}
    assert named == {path.name for path in EXAMPLES.glob("*.py")}

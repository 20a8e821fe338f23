"""What is read from a training script's syntax tree."""

import warnings

import pytest

from rig.scriptargs import ScriptFacts, look_at_script

PLAIN = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
args = parser.parse_args()
"""
HELPER = PLAIN.replace("args =", "import deepspeed\nparser = deepspeed.add_config_arguments(parser)\nargs =")
TRAINER = """
import transformers
from dataclasses import dataclass
@dataclass
class TrainingArguments(transformers.TrainingArguments):
    cache_dir: str = ""
def train():
    parser = transformers.HfArgumentParser((TrainingArguments,))
    args, = parser.parse_args_into_dataclasses()
    transformers.Trainer(args=args).train()
"""


def facts(text: str) -> ScriptFacts:
    found = look_at_script(text)
    assert found is not None
    return found


def test_the_helper_of_deepspeed_takes_a_config() -> None:
    assert facts(HELPER).config_option == "--deepspeed_config"
    assert facts(HELPER).switch


def test_a_plain_parser_takes_neither_config_nor_local_rank() -> None:
    found = facts(PLAIN)
    assert (found.config_option, found.local_rank, found.parses) == (None, False, True)
    assert found.options == ("--epochs",)


@pytest.mark.parametrize(
    ("line", "option", "switch"),
    [
        ('parser.add_argument("--deepspeed_config", type=str)', "--deepspeed_config", False),
        ('parser.add_argument("-d", "--deepspeed", default=None)', "--deepspeed", False),
        ('parser.add_argument("--deepspeed", action="store_true")', None, True),
        ('@click.option("--ds_config")\ndef main(): pass', "--ds_config", False),
        ('print("--deepspeed_config")', None, False),
        ('# parser.add_argument("--deepspeed_config")', None, False),
    ],
)
def test_the_option_that_takes_the_path(line: str, option: str | None, switch: bool) -> None:
    found = facts(line)
    assert (found.config_option, found.switch) == (option, switch)


def test_a_switch_and_a_path_are_told_apart() -> None:
    both = 'p.add_argument("--deepspeed", action="store_true")\np.add_argument("--deepspeed_config")'
    assert facts(both)[:2] == ("--deepspeed_config", True)


def test_the_trainer_resolves_auto_and_takes_a_path() -> None:
    found = facts(TRAINER)
    assert found.hf_trainer and found.local_rank
    assert found.config_option == "--deepspeed"


def test_a_class_of_ones_own_called_trainer_is_not_the_trainer() -> None:
    assert not facts("class Trainer: pass\nTrainer().fit()").hf_trainer


def test_accelerate_is_seen() -> None:
    assert facts("from accelerate import Accelerator\na = Accelerator()").accelerate


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ('p.add_argument("--local_rank", type=int)', True),
        ('p.add_argument("--local-rank", type=int)', False),
        ("args, rest = parser.parse_known_args()", True),
        ("", False),
    ],
)
def test_local_rank(line: str, known: bool) -> None:
    assert facts(line).local_rank is known


@pytest.mark.parametrize(
    "line",
    [
        "deepspeed.initialize(model=m, config=cfg)",
        'from transformers import TrainingArguments\nTrainingArguments("o", deepspeed="z")',
    ],
)
def test_a_config_in_the_code_is_seen(line: str) -> None:
    assert facts(line).config_in_code


def test_initialize_without_a_config_hands_nothing_over() -> None:
    assert not facts("deepspeed.initialize(args=args, model=m)").config_in_code


@pytest.mark.parametrize("text", ["def f(:\n", "print 'old'", "a\x00b", "(" * 5000, "\ud800"])
def test_what_is_not_python_has_no_facts(text: str) -> None:
    assert look_at_script(text) is None


def test_the_script_is_not_run_and_its_warnings_are_kept_quiet() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert look_at_script('raise SystemExit(9)\nx = "\\d"\n') == ScriptFacts()

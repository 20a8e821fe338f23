"""The user's DeepSpeed config: never changed silently, never used where it cannot work."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from entrypoint.config import Refused, _text

SHOW = "import sys; print(sys.argv[-1])"
TAKES = (
    "import argparse, sys\n"
    "parser = argparse.ArgumentParser()\n"
    "parser.add_argument('--deepspeed_config')\n"
    "parser.add_argument('--local_rank', type=int)\n"
    "print(parser.parse_args().deepspeed_config, parser.parse_args().local_rank)\n"
)
ROOM: dict[str, Any] = {"train_batch_size": 8, "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}}


@pytest.fixture(autouse=True)
def one_rank(here: Any) -> None:
    here.environ["RIG_CPU_RANKS"] = "1"


def named(here: Any, config: Any, script: str = SHOW, **environ: str) -> Any:
    here.write("train.py", script)
    here.write("ds.json", config if isinstance(config, str) else json.dumps(config))
    return here.boot("train.py", "--deepspeed_config", "ds.json", **environ)


def test_a_script_that_takes_one_gets_the_generated_config_and_its_rank(here: Any) -> None:
    here.write("train.py", TAKES)
    done = here.boot("train.py")
    assert done.out == f"{here.state}/ds_config.json 0\n"
    assert any("takes a DeepSpeed config and was given none" in line for line in done.lines)
    quiet = here.boot("train.py", RIG_FILL="0")
    assert quiet.out == "None 0\n"
    assert "given none (RIG_FILL=0: none is added)" in quiet.err


def test_room_is_filled_in_a_copy_and_every_difference_is_shown(here: Any) -> None:
    done = named(here, ROOM)
    copy = here.state / "ds.filled.json"
    assert done.out == f"{copy}\n"
    filled = json.loads(copy.read_text())
    assert isinstance(filled["zero_optimization"]["reduce_bucket_size"], int)
    assert filled["train_batch_size"] == 8
    assert json.loads((here.work / "ds.json").read_text()) == ROOM
    shown = [line for line in done.lines if line.startswith("rig:   ")]
    differing = {
        key for key, value in filled["zero_optimization"].items() if ROOM["zero_optimization"].get(key) != value
    }
    assert {line.split()[1].rstrip(":") for line in shown} == {f"zero_optimization.{key}" for key in differing}


def test_the_difference_is_shown_even_when_quiet(here: Any) -> None:
    assert "reduce_bucket_size: auto -> " in named(here, ROOM, RIG_QUIET="1").err


def test_a_file_that_leaves_no_room_is_used_itself(here: Any) -> None:
    done = named(here, {"train_batch_size": 8})
    assert done.out == "ds.json\n"
    assert not list(here.state.glob("*.filled.json"))


def test_fill_0_changes_nothing_and_warns(here: Any) -> None:
    done = named(here, {"train_batch_size": 8, "gradient_clipping": "auto"}, RIG_FILL="0")
    assert done.out == "ds.json\n"
    assert any(line.startswith("rig: warning: ") and "gradient_clipping" in line for line in done.lines)
    assert "rig: warning: ds.json is used as it is (RIG_FILL=0)" in done.lines


def test_what_deepspeed_gets_wrong_is_replaced_loudly(here: Any) -> None:
    zero = {"stage": 2, "overlap_comm": True, "reduce_bucket_size": 1000, "allgather_bucket_size": 1000}
    done = named(here, {"train_batch_size": 8, "zero_optimization": zero})
    copy = json.loads((here.state / "ds.filled.json").read_text())
    assert copy["zero_optimization"]["overlap_comm"] is False
    assert copy["zero_optimization"]["reduce_bucket_size"] == 1000
    assert any("zero_optimization.overlap_comm: true -> false" in line for line in done.lines)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": [1, 2}', "ds.json:1: "),
        ('{\n"a": 1,\n"a": 2\n}', "ds.json:3: duplicate key 'a'"),
        ("", "ds.json is empty. Write {} at least"),
        ("[]", "ds.json:1: the config must be an object"),
        ('{"zero_optimization": {"stage": 5}}', "ds.json: zero_optimization.stage: "),
    ],
)
def test_a_config_that_cannot_work_starts_nothing(here: Any, text: str, says: str) -> None:
    done = named(here, text)
    assert (done.code, done.out) == (78, "")
    errors = [line for line in done.lines if line.startswith("rig: error: ")]
    assert len(errors) == 1 and errors[0].startswith(f"rig: error: {says}"), done.err


def test_a_config_that_is_missing_starts_nothing(here: Any) -> None:
    here.write("train.py", SHOW)
    done = here.boot("train.py", "--deepspeed_config=none.json")
    where = f"(DeepSpeed config, looked for in {here.work})"
    assert (done.code, done.lines[-1]) == (78, f"rig: error: none.json: No such file or directory {where}")
    done = here.boot("train.py", "--deepspeed_config=")
    assert (done.code, done.lines[-1]) == (78, "rig: error: --deepspeed_config=: no path follows")
    done = here.boot("train.py", "--deepspeed_config", "")
    assert (done.code, done.lines[-1]) == (78, "rig: error: the option for a DeepSpeed config: no path follows")


def test_a_config_in_base64_is_read_as_deepspeed_reads_it(here: Any) -> None:
    here.write("train.py", SHOW)

    def boot(config: Any, **environ: str) -> Any:
        word = base64.urlsafe_b64encode(json.dumps(config).encode()).decode()
        return word, here.boot("train.py", "--deepspeed_config", word, **environ)

    word, done = boot({"train_batch_size": 8, "note": "\u00ff?>"})
    assert (done.code, done.out) == (0, f"{word}\n")
    _, done = boot(ROOM)
    assert done.out == f"{here.state}/ds_config.filled.json\n"
    assert json.loads((here.state / "ds_config.filled.json").read_text())["train_batch_size"] == 8
    _, done = boot({"zero_optimization": {"stage": 5}})
    assert done.code == 78
    assert done.lines[-1].startswith("rig: error: the config in base64: zero_optimization.stage: ")
    done = here.boot("train.py", "--deepspeed_config", "A" * 5000)
    assert (done.code, done.out) == (78, "") and len(done.lines[-1]) < 300


def test_every_line_about_a_config_names_the_file_and_the_key(here: Any) -> None:
    zero = {"stage": 2, "offload_param": {"device": "cpu"}}
    done = named(here, {"train_batch_size": 8, "zero_optimization": zero})
    assert "rig: warning: ds.json: zero_optimization.offload_param: " in done.err
    done = named(here, {"zero_optimization": {"stage": 5}})
    assert done.code == 78 and done.lines[-1].startswith("rig: error: ds.json: zero_optimization.stage: ")


def test_a_refusal_says_what_to_do(here: Any) -> None:
    assert named(here, '{\n"a": 1,\n"a": 2\n}').lines[-1].endswith("Remove one of the two")


def test_fill_0_judges_what_is_really_used(here: Any) -> None:
    done = named(here, ROOM, RIG_FILL="0")
    assert "zero_optimization.reduce_bucket_size" in done.err
    assert not list(here.state.glob("*.filled.json"))
    filled = named(here, ROOM)
    assert not any("warning" in line and "reduce_bucket_size" in line for line in filled.lines)


def test_fill_0_still_starts_nothing_that_cannot_work_and_still_replaces_the_placeholder(here: Any) -> None:
    assert named(here, {"zero_optimization": {"stage": 5}}, RIG_FILL="0").code == 78
    assert here.boot("echo", "{ds_config}", RIG_FILL="0").out == f"{here.state}/ds_config.json\n"


def test_a_copy_that_cannot_be_written_leaves_the_file_in_use_and_says_why(here: Any) -> None:
    (here.state / "ds.filled.json").mkdir(parents=True)
    done = named(here, {"train_batch_size": 8, "gradient_clipping": "auto"})
    assert (done.code, done.out) == (0, "ds.json\n")
    assert f"rig: warning: {here.state}/ds.filled.json was not written: Is a directory" in done.lines
    assert "rig: warning: ds.json is used as it is (the copy was not written)" in done.lines


def test_without_a_generated_config_nothing_points_to_one(here: Any) -> None:
    (here.state / "ds_config.json").mkdir(parents=True)
    done = here.boot("python", "-c", "import os; print('RIG_DS_CONFIG' in os.environ)")
    assert done.out == "False\n"
    assert f"rig: warning: {here.state}/ds_config.json was not written: Is a directory" in done.lines
    assert not any("rig: wrote" in line for line in done.lines)
    assert "RIG_DS_CONFIG" not in (here.state / "env").read_text()
    done = here.boot("echo", "{ds_config}")
    assert (done.code, done.out) == (78, "")
    here.write("train.py", TAKES)
    done = here.boot("train.py")
    assert done.out == "None 0\n"
    assert any("was given none, and none could be written here" in line for line in done.lines)


def test_a_program_that_is_executed_as_it_is_keeps_its_words(here: Any) -> None:
    here.write("ds.json", json.dumps(ROOM))
    done = here.boot("python", "-c", SHOW, "--deepspeed_config", "ds.json")
    assert done.out == "ds.json\n"


def test_a_pipe_and_a_huge_file_are_no_config(tmp_path: Path) -> None:
    pipe, huge = tmp_path / "pipe.json", tmp_path / "huge.json"
    os.mkfifo(pipe)
    huge.write_text('{"x": "' + "a" * (1 << 20) + '"}')
    for path, word in ((pipe, "is no file"), (huge, "larger than 1 MiB")):
        with pytest.raises(Refused, match=word):
            _text(str(path))

"""Containers started wrong: `rig check` in each finds it, and its remedy is the flag that was missing."""

import json
from typing import Any, NamedTuple

import pytest

pytestmark = pytest.mark.container

SOLD = "gpus=8,hcas=8"  # limits that matter to GPUs and HCAs only are judged where those were sold


class Wrong(NamedTuple):
    """Options of `docker run`, the check that must speak, and what its remedy must name."""

    options: str
    check: str
    mends: str
    outcome: str = "fail"


WRONG = (
    Wrong("--shm-size 64m", "shared_memory_is_large_enough", "--ipc=host"),
    Wrong("--ulimit memlock=65536", "memlock_is_unlimited", "--ulimit memlock=-1"),
    Wrong("--ulimit nofile=256", "open_files_are_enough", "--ulimit nofile="),
    Wrong("--cpus 0.5", "cpus_are_enough", "--cpus="),
    Wrong("--memory 512m", "memory_is_enough_to_start", "--memory="),
    Wrong("--pids-limit 64", "processes_are_enough", "--pids-limit"),
    Wrong("--read-only", "temporary_files_can_be_written", "--tmpfs /tmp"),
    Wrong("--user 12345:12345", "user_has_an_account", "--user UID:0", "warn"),
    Wrong("", "hcas_are_as_many_as_sold", "--device=/dev/infiniband"),
)
RIGHT = "--shm-size 2g --cpus 2 --memory 8g --tmpfs /tmp:exec --user 12345:0"


def results(docker: Any, options: str, *words: str) -> dict[str, Any]:
    """Check -> its result in a container with these options."""
    done = docker.run("rig", "check", "--json", *words, options=options.split())
    assert done.code in (0, 1, 2), done.err
    return {result["id"]: result for result in json.loads(done.out)["results"]}


@pytest.mark.parametrize("wrong", WRONG, ids=[wrong.options.strip("-") or "no-infiniband" for wrong in WRONG])
def test_what_was_started_wrong_is_found_with_the_flag_that_mends_it(docker: Any, wrong: Wrong) -> None:
    result = results(docker, wrong.options, "--only", wrong.check, "--expect", SOLD)[wrong.check]
    assert result["outcome"] == wrong.outcome, result
    assert any(wrong.mends in finding["fix"] for finding in result["findings"]), result


def test_a_container_that_was_started_right_is_not_blamed(docker: Any) -> None:
    found = results(docker, RIGHT, "--level", "quick", "--only", "limits,storage", "--expect", "gpus=2")
    wanted = {wrong.check for wrong in WRONG} & set(found) - {"memlock_is_unlimited", "user_has_an_account"}
    assert wanted >= {"shared_memory_is_large_enough", "cpus_are_enough", "temporary_files_can_be_written"}
    assert {name: found[name]["findings"] for name in wanted if found[name]["outcome"] == "fail"} == {}


def test_a_user_of_group_0_has_an_account_once_the_container_has_booted(docker: Any) -> None:
    container = docker.start("sleep", "1000", options=["--user", "12345:0"])
    container.wait_for("found no GPU")
    done = container.exec("rig", "check", "--only", "user_has_an_account,temporary_files_can_be_written", "--json")
    told = json.loads(done.out)
    assert (done.code, told["counts"]["pass"]) == (0, 2), done.out

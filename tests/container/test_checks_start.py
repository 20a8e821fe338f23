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
    Wrong("--user 12345:12345", "account_has_a_name", "--user UID:0", "warn"),
    Wrong("", "hcas_are_as_many_as_sold", "--device=/dev/infiniband"),
)
RIGHT = "--shm-size 2g --memory 8g --pids-limit 8192 --tmpfs /tmp:exec --user 12345:0"
# Not every engine may raise these two above its own limits (rootless, or in a container).
RAISED = ("memlock_is_unlimited", "open_files_are_enough")


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
    names = [wrong.check for wrong in WRONG if wrong.check not in (*RAISED, "hcas_are_as_many_as_sold")]
    found = results(docker, RIGHT, "--only", ",".join(names), "--expect", "gpus=2")
    assert {name: found[name]["findings"] for name in names if found[name]["outcome"] != "pass"} == {}

"""The image judged from outside by pytest, and at boot by what the systemd unit runs: the same answer in three ways."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from checks.catalogue import FAMILIES, checks_of
from factory.check import check_image, environment

pytestmark = pytest.mark.container

CHECKOUT = Path(__file__).resolve().parents[2]


def judged(folder: Path) -> dict[str, dict[str, str]]:
    """Check -> its properties, of pytest's JUnit report."""
    from xml.etree import ElementTree

    cases = ElementTree.parse(folder / "junit.xml").iter("testcase")
    found = [{p.attrib["name"]: p.attrib["value"] for p in case.iter("property")} for case in cases]
    return {told["check"]: told for told in found}


def test_the_healthy_image_passes_and_what_does_not_apply_is_named(docker: Any, tmp_path: Path) -> None:
    code = check_image(
        docker.engine, docker.image, ["-q", f"--junit-xml={tmp_path}/junit.xml", "-p", "no:cacheprovider"]
    )
    told = judged(tmp_path)
    # A busy machine may run out of the level's ten seconds, and says so; anything else must be known.
    late = {name for name, one in told.items() if one.get("why", "").startswith("budget")}
    assert {name: one for name, one in told.items() if one["outcome"] in ("fail", "unknown") and name not in late} == {}
    assert code == (1 if late & {one.id for one in checks_of("quick") if one.severity == "fail"} else 0)
    assert set(told) == {one.id for one in checks_of("quick")}
    skipped = {one.family for one in checks_of("quick") if told[one.id]["outcome"] == "skip"}
    assert {"gpu", "driver", "memory", "clocks", "nvlink", "rdma", "gpudirect"} <= skipped <= set(FAMILIES)
    assert all(one["why"] for one in told.values() if one["outcome"] == "skip")
    assert told["memlock_is_unlimited"]["why"].startswith("no RDMA device here")
    left = docker.call("ps", "--all", "--quiet", "--filter", "name=rig-check-").out
    assert left == ""


def test_the_unit_s_script_leaves_files_and_a_line(docker: Any, tmp_path: Path) -> None:
    state, textfile = tmp_path / "rig", tmp_path / "textfile"
    environ = {
        **environment(docker.engine),
        "RIG_IMAGE": docker.image,
        "RIG_LEVEL": "boot",
        "RIG_EXPECT": "hcas=8",
        "RIG_STATE_DIR": str(state),
        "RIG_TEXTFILE_DIR": str(textfile),
    }
    done = subprocess.run(
        [CHECKOUT / "deploy" / "rig-selftest"], env=environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("rig-selftest: FAILED: ") and done.stdout.count("\n") == 1
    told = json.loads((state / "boot.json").read_text())
    assert told["exit_code"] == 1 and told["level"] == "boot"
    assert {one["id"] for one in told["results"] if one["outcome"] == "fail"} >= {"hcas_are_as_many_as_sold"}
    assert (state / "boot.npd").read_text().strip() in done.stdout
    assert (state / "boot.code").read_text() == "1\n"
    metrics = {one.name: one for one in text_string_to_metric_families((textfile / "rig.prom").read_text())}
    assert [sample.value for sample in metrics["rig_check_exit_code"].samples] == [1]
    assert (state / "boot.txt").read_text().splitlines()[-1].startswith("fail: ")
    plugin = CHECKOUT / "deploy" / "kubernetes" / "rig-selftest-npd.sh"
    said = subprocess.run([plugin], env={"PATH": os.defpath, "RIG_STATE_DIR": str(state)}, capture_output=True)
    assert said.returncode == 1 and said.stdout.decode() in (state / "boot.npd").read_text()


def test_a_container_without_rig_is_one_error(docker: Any) -> None:
    container = docker.start("86400", options=["--entrypoint", "sleep", "--volume", "/dev/null:/usr/local/bin/rig:ro"])
    command = [sys.executable, "-m", "pytest", "checks", f"--hosts=docker://{container.name}", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment(docker.engine), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "1 error" in done.stdout and "no command rig on its PATH" in done.stdout

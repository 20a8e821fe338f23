"""The files for a fleet: well-formed, in step with one another, and the plugin that only reads."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
PLUGIN = KUBERNETES / "rig-selftest-npd.sh"
BOOT = "4f1c2e5e-boot"


def text(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def pod() -> Any:
    return yaml.safe_load(text("kubernetes/daemonset.yaml"))["spec"]["template"]["spec"]


def test_cloud_init_carries_the_files_as_they_are() -> None:
    config = text("cloud-init.yaml")
    assert config.startswith("#cloud-config\n")
    files = {file["path"]: file for file in yaml.safe_load(config)["write_files"]}
    script, unit = files["/usr/local/sbin/rig-selftest"], files["/etc/systemd/system/rig-selftest.service"]
    assert (script["content"], script["permissions"]) == (text("rig-selftest"), "0755")
    assert (unit["content"], unit["permissions"]) == (text("rig-selftest.service"), "0644")
    assert "EnvironmentFile=-/etc/default/rig-selftest\n" in unit["content"]
    assert "/etc/default/rig-selftest" in files


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = text("rig-selftest.service").replace("/usr/local/sbin/rig-selftest", str(DEPLOY / "rig-selftest"))
    (tmp_path / "rig-selftest.service").write_text(unit)
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "rig-selftest.service"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_daemonset_names_only_volumes_that_it_has_and_runs_where_nothing_may_run_yet() -> None:
    spec = pod()
    [container] = spec["containers"]
    volumes = [volume["name"] for volume in spec["volumes"]]
    assert sorted(mount["name"] for mount in container["volumeMounts"]) == sorted(volumes)
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["hostNetwork"] and container["securityContext"]["privileged"]
    assert "nvidia.com/gpu" not in str(container["resources"])  # it would take the GPUs from the jobs for ever


def test_a_pod_looks_once_a_boot_and_is_ready_when_its_node_passed(tmp_path: Path) -> None:
    """The container's own words, with a stand-in for rig; paths of the container are moved into a folder."""
    [container] = pod()["containers"]
    for folder in ("out", "textfile", "bin"):
        (tmp_path / folder).mkdir()
    script = container["args"][0].replace("/out/", f"{tmp_path}/out/").replace("/textfile/", f"{tmp_path}/textfile/")
    rig = tmp_path / "bin" / "rig"
    rig.write_text(f'#!/bin/sh\necho "$*" >>"{tmp_path}/calls"; echo told; exit 1\n')
    rig.chmod(0o755)
    (tmp_path / "textfile" / "rig.prom").write_text("of the last boot")
    environ = {"PATH": f"{tmp_path}/bin:{os.defpath}", "RIG_LEVEL": "full"}
    for _ in range(2):
        told = script.replace("sleep infinity", "true")
        subprocess.run(["sh", "-c", told], env=environ, check=True, timeout=30)
    assert len((tmp_path / "calls").read_text().splitlines()) == 1
    assert not (tmp_path / "textfile" / "rig.prom").exists()
    ready = [word.replace("/out/", f"{tmp_path}/out/") for word in container["readinessProbe"]["exec"]["command"]]
    assert subprocess.run(ready, timeout=30).returncode == 1
    (tmp_path / "out" / "boot.code").write_text("0\n")
    assert subprocess.run(ready, timeout=30).returncode == 0


def test_the_plugin_s_configuration_fits_itself() -> None:
    """Source: pkg/custompluginmonitor/types/config.go of node-problem-detector, Validate."""
    config = json.loads(text("kubernetes/node-problem-detector.json"))
    assert config["plugin"] == "custom"
    assert config["pluginConfig"]["max_output_length"] >= 80
    [rule], [condition] = config["rules"], config["conditions"]
    assert (rule["type"], rule["condition"]) == ("permanent", condition["type"])
    assert float(rule["timeout"].rstrip("s")) <= float(config["pluginConfig"]["timeout"].rstrip("s"))
    assert Path(rule["path"]).name == PLUGIN.name
    assert os.access(PLUGIN, os.X_OK)


@pytest.mark.parametrize(
    ("left", "says", "code"),
    [
        ({}, "no self-test of this boot yet", 2),
        ({"id": "another-boot", "npd": "12 checks passed", "code": "0"}, "no self-test of this boot yet", 2),
        ({"id": BOOT, "npd": "12 checks passed", "code": "0"}, "12 checks passed", 0),
        ({"id": BOOT, "npd": "1 failed: gpus_are_all_there", "code": "1"}, "1 failed: gpus_are_all_there", 1),
        ({"id": BOOT, "npd": "nothing could be judged", "code": "2"}, "nothing could be judged", 2),
        ({"id": BOOT}, "", 2),
    ],
)
def test_the_plugin_tells_what_the_self_test_of_this_boot_left(
    tmp_path: Path, left: dict[str, str], says: str, code: int
) -> None:
    for name, said in left.items():
        (tmp_path / f"boot.{name}").write_text(f"{said}\n")
    (tmp_path / "boot_id").write_text(f"{BOOT}\n")
    environ = {"PATH": os.defpath, "RIG_STATE_DIR": str(tmp_path), "RIG_BOOT_ID": str(tmp_path / "boot_id")}
    done = subprocess.run(["sh", PLUGIN], env=environ, capture_output=True, text=True, timeout=30)
    assert (done.stdout.strip(), done.returncode) == (says, code)

"""The platform file: read, checked, refused with one line, and held to its published schema."""

import copy
import json
import os
import time
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.platform import EXAMPLE, run
from rig.captured import Captured, Tree
from rig.finding import Finding
from rig.platform import PATH, Platform, PlatformNode, load_platform
from rig.platform_schema import parse_platform
from rig.platform_values import ENV_ALLOWED
from rig.root import READ_LIMIT, Live

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs")
with open(os.path.join(DOCS, "network_topology.schema.json"), encoding="utf-8") as _file:
    SCHEMA = json.load(_file)
CHECKER = jsonschema.Draft202012Validator(SCHEMA)


def loaded(value: Any, **files: str) -> tuple[Platform | None, tuple[Finding, ...]]:
    """The file with this value (text is taken as it is), beside other files (`_` stands for `/`)."""
    tree = Tree()
    text = value if isinstance(value, str) else json.dumps(value)
    for path, body in ({PATH: text} | {name.replace("_", "/"): body for name, body in files.items()}).items():
        folder, _, name = path.rpartition("/")
        tree.folder(folder)[name] = None
        tree.texts[path] = body
    return load_platform(Captured(tree))


def test_no_file_is_no_platform_and_no_word() -> None:
    assert load_platform(Captured(Tree())) == (None, ())


def test_the_example_is_valid_for_both_and_says_what_it_says() -> None:
    CHECKER.check_schema(SCHEMA)
    CHECKER.validate(json.loads(EXAMPLE))
    platform, findings = loaded(EXAMPLE)
    assert platform is not None and findings == ()
    assert [nic.role for nic in platform.nics] == ["compute", "frontend"]
    assert platform.nics[0].gpu_affinity == ("0000:1b:00.0",)
    assert platform.fabric.traffic_class == 106
    assert platform.env == (("NCCL_IB_TIMEOUT", "22"),)
    assert platform.nodes == (PlatformNode("gpu-01", 8, "r7"), PlatformNode("gpu-02", 8, "r8"))


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("{", ""),
        ("", ""),
        ("[]", ""),
        ("null", ""),
        ("[" * 100_000, ""),
        ('{"schema_version": 1, "gpus": [], "gpus": []}', ""),
        ('{"schema_version": NaN}', ""),
        ('{"schema_version": 1' + "0" * 5000 + "}", ""),
        ({}, "schema_version"),
        ({"schema_version": 2}, "schema_version"),
        ({"schema_version": "1"}, "schema_version"),
        ({"schema_version": True}, "schema_version"),
        ({"schema_version": 1, "nics": {}}, "nics"),
        ({"schema_version": 1, "nics": [3]}, "nics[0]"),
        ({"schema_version": 1, "nics": [{"role": "compute"}]}, "nics[0]"),
        ({"schema_version": 1, "nics": [{"name": "a", "role": "Compute"}]}, "nics[0].role"),
        ({"schema_version": 1, "nics": [{"name": "a b"}]}, "nics[0].name"),
        ({"schema_version": 1, "nics": [{"name": "a", "port": True}]}, "nics[0].port"),
        ({"schema_version": 1, "nics": [{"name": "a", "subnet": "198.51.100.7/24"}]}, "nics[0].subnet"),
        ({"schema_version": 1, "nics": [{"name": "a", "netdev": None}]}, "nics[0].netdev"),
        ({"schema_version": 1, "nics": [{"name": "a"}, {"name": "a"}]}, "nics"),
        ({"schema_version": 1, "nics": [{"name": "a", "speed_gbps": 1e400}]}, ""),
        ({"schema_version": 1, "gpus": [{"bus_id": "0000:1B:00.0"}]}, "gpus[0].bus_id"),
        ({"schema_version": 1, "gpus": [{"bus_id": "0000:1b:00.0"}] * 2}, "gpus"),
        ({"schema_version": 1, "gpus": [{}]}, "gpus[0].bus_id"),
        ({"schema_version": 1, "fabric": {"traffic_class": 256}}, "fabric.traffic_class"),
        ({"schema_version": 1, "fabric": {"latency_us": -1}}, "fabric.latency_us"),
        ({"schema_version": 1, "fabric": {"pkey": "8001"}}, "fabric.pkey"),
        ({"schema_version": 1, "nccl": {"topo_file": "../topo.xml"}}, "nccl.topo_file"),
        ({"schema_version": 1, "nccl": {"env": []}}, "nccl.env"),
        ({"schema_version": 1, "nccl": {"env": {"NCCL_IB_TC": 106}}}, "nccl.env.NCCL_IB_TC"),
        ({"schema_version": 1, "nccl": {"env": {"NCCL_IB_TC": "1\nLD_PRELOAD=x"}}}, "nccl.env.NCCL_IB_TC"),
        ({"schema_version": 1, "cluster": {"nodes": [{"name": "a; rm"}]}}, "cluster.nodes[0].name"),
        ({"schema_version": 1, "cluster": {"nodes": [{"name": "a", "slots": 0}]}}, "cluster.nodes[0].slots"),
    ],
)
def test_a_broken_file_is_ignored_with_one_line(value: Any, key: str) -> None:
    platform, findings = loaded(value)
    assert platform is None
    assert [one.id for one in findings] == ["PLATFORM_FILE_IGNORED"]
    assert findings[0].outcome == "warn" and findings[0].fix
    assert PATH in findings[0].text and "\n" not in findings[0].text
    assert findings[0].subject in (key, PATH) if not key else findings[0].subject == key


def test_a_file_of_a_mebibyte_or_behind_a_link_elsewhere_is_ignored() -> None:
    big = json.dumps({"schema_version": 1, "$comment": "x" * READ_LIMIT})
    assert "1 MiB" in loaded(big[:READ_LIMIT])[1][0].text
    tree = Tree()
    tree.folder("/etc/rdma")["network_topology.json"] = None
    tree.links[PATH] = "/home/somebody/file.json"
    tree.folder("/home/somebody")["file.json"] = None
    tree.texts["/home/somebody/file.json"] = EXAMPLE
    assert "outside" in load_platform(Captured(tree))[1][0].text


def test_a_link_inside_the_folder_is_how_kubernetes_mounts() -> None:
    tree = Tree()
    tree.folder("/etc/rdma")["network_topology.json"] = None
    tree.links[PATH] = "/etc/rdma/..data/network_topology.json"
    tree.folder("/etc/rdma/..data")["network_topology.json"] = None
    tree.texts["/etc/rdma/..data/network_topology.json"] = EXAMPLE
    assert load_platform(Captured(tree))[0] is not None


def test_unknown_keys_and_names_are_told_and_change_nothing() -> None:
    value = json.loads(EXAMPLE)
    value["nics"][0]["rolle"] = "storage"
    value["nccl"]["env"] |= {"LD_PRELOAD": "/x.so", "NCCL_IB_HCA": "mlx5", "NCCL_NET_PLUGIN": "x"}
    platform, findings = loaded(value)
    assert platform == loaded(EXAMPLE)[0]
    told = {one.subject: one.fix for one in findings}
    assert set(told) == {"nics[0].rolle", "nccl.env.LD_PRELOAD", "nccl.env.NCCL_IB_HCA", "nccl.env.NCCL_NET_PLUGIN"}
    assert "role" in told["nics[0].rolle"]


def test_a_flood_of_warnings_is_cut() -> None:
    value = {"schema_version": 1} | {f"key{at}": 1 for at in range(100)} | {"\x1b[2J": 1}
    platform, findings = loaded(value)
    assert platform is not None
    assert len(findings) == 8
    assert "94 more" in findings[-1].text
    assert all(one.text.isprintable() for one in findings)


def test_a_file_for_another_machine_is_not_ours() -> None:
    host = {"_proc_sys_kernel_hostname": "gpu-07\n"}
    assert loaded({"schema_version": 1, "node": {"hostname_match": "gpu-*"}}, **host)[0] is not None
    assert loaded({"schema_version": 1, "node": {"hostname_match": "g*-*7"}}, **host)[0] is not None
    for pattern in ("cpu-*", "gpu-0", "gpu-07x*", "gpu-*-07"):
        platform, findings = loaded({"schema_version": 1, "node": {"hostname_match": pattern}}, **host)
        assert platform is None and findings[0].subject == "node.hostname_match"


def test_a_topology_file_must_be_there_and_safe(tmp_path: Any) -> None:
    value = {"schema_version": 1, "nccl": {"topo_file": "/etc/rdma/topo.xml"}}
    platform, findings = loaded(value)
    assert platform is not None and platform.topo_file is None
    assert findings[0].subject == "nccl.topo_file"
    xml = '<system version="1"><pci busid="0000:1B:00.0"/><pci busid=\'ffff:ff:01.0\'/></system>'
    there, _ = loaded(value, **{"_etc_rdma_topo.xml": xml})
    assert there is not None and there.topo_buses == ("0000:1b:00.0", "ffff:ff:01.0")
    folder = tmp_path / "etc" / "rdma"
    folder.mkdir(parents=True)
    (folder / "network_topology.json").write_text(json.dumps(value))
    (folder / "topo.xml").write_text(xml)
    root = Live(str(tmp_path))
    assert load_platform(root)[0] == there
    (folder / "topo.xml").chmod(0o666)
    unsafe, told = load_platform(root)
    assert unsafe is not None and unsafe.topo_file is None and "others" in told[0].text


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found += paths_of(item, (*path, key))
    return found


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


@given(st.sampled_from(paths_of(json.loads(EXAMPLE))), VALUES)
def test_what_we_accept_the_schema_accepts(path: tuple[Any, ...], value: Any) -> None:
    changed = copy.deepcopy(json.loads(EXAMPLE))
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    platform, problems = parse_platform(json.dumps(changed))
    assert (platform is None) == any(one.fatal for one in problems)
    if platform is not None:
        CHECKER.validate(changed)
    elif CHECKER.is_valid(changed):  # stricter by hand: numbers with a point, host bits, doubles
        assert any("whole number" in one.text or "twice" in one.text or "subnet" in one.text for one in problems) or (
            path == ("schema_version",)
        )


def test_schema_and_reader_know_the_same_names() -> None:
    keys = SCHEMA["properties"]
    assert set(keys["nccl"]["properties"]["env"]["properties"]) == ENV_ALLOWED
    for name, inner in (("gpus", "items"), ("nics", "items"), ("rails", "items")):
        value = {"schema_version": 1, name: [{"made_up": 1, **dict.fromkeys(keys[name][inner]["properties"])}]}
        told = [one.key for one in parse_platform(json.dumps(value))[1] if not one.fatal]
        assert told == [f"{name}[0].made_up"]
    assert not [name for name in ENV_ALLOWED if "PLUGIN" in name or "FILE" in name or name.startswith("LD_")]


def test_validate_lists_all_problems(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(EXAMPLE)
    bad.write_text('{"schema_version": 1, "nics": [{"name": "a b", "role": "x"}], "gpus": [{}], "extra": 1}')
    assert run(["validate", str(good)]) == 0
    assert capsys.readouterr().out.endswith("valid\n")
    assert run(["validate", str(bad)]) == 1
    told = capsys.readouterr().out
    for key in ("nics[0].name", "nics[0].role", "gpus[0].bus_id", "extra"):
        assert key in told
    assert run(["validate", str(tmp_path / "none.json")]) == 1
    assert run(["validate", str(good), "more"]) == 64
    assert run(["chek"]) == 64
    assert run([]) == 64
    assert run(["--help"]) == 0
    assert run(["example"]) == 0
    assert "schema_version" in capsys.readouterr().out


def test_a_file_full_of_strange_or_doubled_keys_is_read_in_a_moment() -> None:
    """It is read at every boot: as long as 1 MiB of keys takes, every program waits."""
    names = [f"key{place:05}" for place in range(40000)]
    strange = json.dumps({"schema_version": 1, "platform": dict.fromkeys(names, 1)})
    doubled = "{" + ", ".join(f'"{name}": 1' for name in (*names, names[-1])) + "}"
    start = time.process_time()
    platform, findings = loaded(strange)
    assert platform is not None and findings[-1].text.endswith("and 39993 more")
    assert "the key 'key39999' stands twice" in loaded(doubled)[1][0].text
    assert time.process_time() - start < 1.5


def test_a_link_that_leads_nowhere_is_told() -> None:
    tree = Tree()
    tree.folder("/etc/rdma")["network_topology.json"] = None
    tree.links[PATH] = PATH
    assert "leads nowhere" in load_platform(Captured(tree))[1][0].text
    assert load_platform(Captured(Tree())) == (None, ())

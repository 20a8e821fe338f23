"""Garbage in the place of a platform file: never an exception, never a setting. RIG_FUZZ sets the number of
examples."""

import json
import os
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrypoint.platform import EXAMPLE
from rig.captured import Captured, Tree
from rig.plan.nccl import plan_nccl
from rig.platform import PATH, Platform, load_platform
from rig.platform_values import ENV_ALLOWED
from tests.case_made import ETH0, gpus, hca, kind, mlx5_table
from tests.case_tree import lay_out

EXAMPLES = int(os.environ.get("RIG_FUZZ", "300"))
MACHINE = lay_out(
    kind(
        gpus=gpus(2), rdma=[hca(f"mlx5_{at}", "Ethernet", table=mlx5_table(at + 1)) for at in range(2)], netdevs=[ETH0]
    )
).machine
KEYS = st.sampled_from(
    [
        "schema_version",
        "platform",
        "node",
        "gpus",
        "nics",
        "rails",
        "fabric",
        "nccl",
        "cluster",
        "nodes",
        "name",
        "bus_id",
        "port",
        "role",
        "rail",
        "isolated",
        "id",
        "env",
        "topo_file",
        "graph_file",
        "subnet",
        "netdev",
        "gpu_affinity",
        "traffic_class",
        "service_level",
        "pkey",
        "slots",
        "hostname_match",
        "machine_id",
        "NCCL_IB_TC",
        "NCCL_IB_HCA",
        "LD_PRELOAD",
        "switch_path",
        "latency_us",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["compute", "0000:1b:00.0", "mlx5_0", "/etc/passwd", "198.51.100.0/24", "1", "0x8001", "*"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=10), inner, max_size=6),
    max_leaves=30,
)
FUZZ = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def load(text: str) -> Platform | None:
    """The file with this text; whatever is in it, the plan must stand."""
    tree = Tree()
    tree.folder("/etc/rdma")["network_topology.json"] = None
    tree.texts[PATH] = text
    platform, findings = load_platform(Captured(tree))
    for found in findings:
        assert found.outcome == "warn" and found.text and len(found.text) < 1000
        assert found.text.isprintable()
    plan = plan_nccl(MACHINE, platform=platform, nccl_version=(2, 21, 5))
    for one in (*plan.environment, *plan.conf):
        assert isinstance(one.value, str) and one.value.isprintable() and one.value.isascii()
        assert one.name in ENV_ALLOWED or one.name in ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_IB_GID_INDEX")
    if platform is None:
        assert (plan.environment, plan.conf) == UNTOUCHED
    assert set(plan.hcas or ()) <= {"mlx5_0", "mlx5_1"}
    return platform


_alone = plan_nccl(MACHINE, nccl_version=(2, 21, 5))
UNTOUCHED = (_alone.environment, _alone.conf)


@FUZZ
@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "replace")))
def test_any_text(text: str) -> None:
    load(text)


@FUZZ
@given(JSON)
def test_any_json(value: Any) -> None:
    load(json.dumps(value))


@FUZZ
@given(st.dictionaries(KEYS, JSON, max_size=6))
def test_any_object_of_version_1(value: dict[str, Any]) -> None:
    load(json.dumps({**value, "schema_version": 1}))


@FUZZ
@given(st.data())
def test_the_example_with_one_place_changed(data: st.DataObject) -> None:
    value = json.loads(EXAMPLE)
    at = value
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else list(range(len(at)))))
        if isinstance(at[key], (dict, list)) and at[key] and data.draw(st.booleans()):
            at = at[key]
            continue
        at[key] = data.draw(JSON)
        break
    load(json.dumps(value))


@FUZZ
@given(st.integers(0, len(EXAMPLE)), st.integers(0, len(EXAMPLE)), st.text(max_size=3))
def test_the_examples_text_cut_and_mended(start: int, end: int, between: str) -> None:
    load(EXAMPLE[:start] + between + EXAMPLE[end:])

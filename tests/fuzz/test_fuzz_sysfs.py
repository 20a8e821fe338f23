"""Kernels say strange things: no text, link, refusal or missing file may crash detection, stall it or make it lie.

RIG_FUZZ is the number of examples (300 where it is not set). The corpus: the machines in tests/machines, and PAYLOADS.
"""

import json
import math
import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrypoint.facts import page
from rig.anonymous import anonymous
from rig.capture import Recorder
from rig.capture_text import render
from rig.captured import Captured, Tree, parse
from rig.detect import detect
from rig.emit import to_json
from rig.machine import Machine
from rig.root import Collected, Space
from rig.text import WIDTHS, is_bus_id
from rig.topology import CLASSES, path_class, tree

EXAMPLES = int(os.environ.get("RIG_FUZZ", "300"))
LONGEST_S = 5.0  # of one example; the usual is 0.01
MACHINES = Path(__file__).parents[1] / "machines"
TEXTS = {path.parent.name: path.read_text() for path in sorted(MACHINES.glob("*/tree.txt"))}
TREES = {name: parse(text) for name, text in TEXTS.items()}
PAYLOADS = (
    "", "\n", "\n\n\n", " ", "\0\1\2\ufffd\ufffd", "-1", "-1\n", "0", "1", "255", "4294967295",
    "18446744073709551615", "9" * 5000, "0x", "0x-1", "-0x10de", "0xffffffffffffffffffff", "1_0",
    "\u0663\u0664", "\u00b2", "\U0001f984", "nan", "inf", "1e309", "NaN Gb/sec", "inf GT/s PCIe", "1.5.5 GT/s",
    "Unknown", "4: ACTIVE: 4", "0000:00:00.0", "ffffffffffff:ff:ff.f", "../../..", "max max", "max", "100000 0",
    "0-99999999999", "9-1", "a" * 70000, "=" * 50, "KEY=", "%s{}", ":" * 39, "ffff:" * 8, "::", "[]", "\r\n\t",
    "0 bus_id 0000:00:00.0\nasking 99\n", "Uid:\t0\t0\t0\t0\nCapEff:\tffffffffffffffffff\n",
    "eth0 00000000 x\n" * 50, "- - -\n/ / overlay / /", "\ud800",
)  # fmt: skip


def copy(source: Tree) -> Tree:
    made = Tree()
    for name in ("texts", "blobs", "links", "refused", "opens", "spaces", "programs"):
        setattr(made, name, dict(getattr(source, name)))
    made.children = {path: dict(names) for path, names in source.children.items()}
    return made


def pick(items: list[str], where: float) -> str | None:
    return items[int(where * len(items)) % len(items)] if items else None


def mutate(made: Tree, kind: str, where: float, other: float, payload: str) -> None:
    """Change one thing. `where` and `other` (0 to 1) choose what."""
    path = pick(list(made.texts), where)
    folder = pick(list(made.children), where) or ""
    link = pick(list(made.links), where)
    if kind == "text" and path:
        made.texts[path] = payload
    elif kind == "splice" and path:
        text = made.texts[path]
        at = int(other * len(text))
        made.texts[path] = text[:at] + payload + text[at + 1 :]
    elif kind == "drop" and path:
        del made.texts[path]
    elif kind == "refuse" and path:
        del made.texts[path]
        made.refused[path] = None
    elif kind == "forget":
        made.children.pop(folder)
    elif kind == "name":
        made.children[folder][payload.replace("/", "") or "x"] = None
    elif kind == "link" and link:
        made.links[link] = pick([link, "/", "", link + "/x", "x", payload, *made.links, *made.children], other) or ""
    elif kind == "relink" and path:
        made.links[path] = pick([path, "/sys", *made.texts, *made.links], other) or ""
    elif kind == "device":
        for node in made.opens:
            made.opens[node] = other > 0.5
    elif kind == "space":
        made.spaces["/dev/shm"] = Space(int(other * 2**70) - 2**69, -1)
    elif kind == "driver":
        told = made.programs.get(("rig-nvml",), Collected("ok"))
        at = int(other * len(told.output))
        output = told.output[:at] + payload + told.output[at + len(payload) * (where > 0.5) :]
        made.programs[("rig-nvml",)] = Collected(("ok", "failed", "hung", "ok")[int(where * 4) % 4], output)
    elif kind == "bytes" and path:
        made.blobs[path.rpartition("/")[0] + "/config"] = (payload.encode("utf-8", "replace") * 4096)[:4096]
        made.children[path.rpartition("/")[0]] = {**made.children.get(path.rpartition("/")[0], {}), "config": None}


KINDS = ["text", "splice", "drop", "refuse", "forget", "name", "link", "relink", "device", "space", "driver", "bytes"]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.floats(0, 1, exclude_max=True),
        st.floats(0, 1, exclude_max=True),
        st.one_of(st.sampled_from(PAYLOADS), st.text(max_size=30)),
    ),
    min_size=1,
    max_size=12,
)
FUZZ = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def sane(machine: Machine) -> None:
    """Whatever was read: what is told is possible, can be written down, shown and measured."""
    json.loads(to_json(machine).encode("ascii"))
    for device in machine.pci:
        assert is_bus_id(device.bus_id)
        assert device.link_width is None or device.link_width in WIDTHS
        assert device.link_gts is None or 2 <= device.link_gts <= 256
        assert device.numa is None or 0 <= device.numa < 1024
    for hca in machine.hcas:
        for port in hca.ports:
            assert port.rate_gbps is None or (math.isfinite(port.rate_gbps) and 0 < port.rate_gbps <= 10000)
            assert all(len(gid.gid) == 39 and gid.gid.strip("0:") for gid in port.gids)
    for netdev in machine.netdevs:
        assert netdev.speed_mbps is None or 0 < netdev.speed_mbps <= 10_000_000
    assert [gpu.index for gpu in machine.gpus] == list(range(len(machine.gpus)))
    assert machine.limits.cpus is None or machine.limits.cpus == -1 or machine.limits.cpus >= 0
    known = tree(machine.pci)
    for gpu in machine.gpus[:2]:
        for hca in machine.hcas[:3]:
            assert path_class(known, str(gpu.bus_id), str(hca.bus_id)) in (*CLASSES, None)
    assert page(machine)


def survive(root: Captured) -> Machine:
    began = time.monotonic()
    machine = detect(root)
    sane(machine)
    assert time.monotonic() - began < LONGEST_S
    return machine


@FUZZ
@given(name=st.sampled_from(sorted(TREES)), changes=CHANGES)
def test_a_damaged_machine_is_survived(name: str, changes: list[tuple[str, float, float, str]]) -> None:
    made = copy(TREES[name])
    for change in changes:
        mutate(made, *change)
    survive(Captured(made))


@settings(FUZZ, max_examples=max(EXAMPLES // 10, 20))
@given(name=st.sampled_from(sorted(TREES)), changes=CHANGES)
def test_a_damaged_machine_is_recorded_and_replays(name: str, changes: list[tuple[str, float, float, str]]) -> None:
    made = copy(TREES[name])
    for change in changes:
        mutate(made, *change)
    recorder = Recorder(Captured(made))
    detect(recorder)
    survive(Captured(parse(render(recorder.tree))))
    survive(Captured(parse(render(anonymous(recorder.tree)))))


@settings(FUZZ, max_examples=max(EXAMPLES // 10, 20))
@given(
    name=st.sampled_from(sorted(TEXTS)),
    edits=st.lists(
        st.tuples(st.sampled_from(["drop", "repeat", "swap", "insert", "cut"]), st.floats(0, 1), st.text(max_size=20)),
        min_size=1,
        max_size=10,
    ),
)
def test_a_damaged_text_is_refused_or_survived(name: str, edits: list[tuple[str, float, str]]) -> None:
    lines = TEXTS[name].split("\n")
    for kind, where, text in edits:
        at = min(1 + int(where * len(lines)), len(lines) - 1)
        if kind == "drop":
            del lines[at]
        elif kind == "repeat":
            lines.insert(at, lines[at])
        elif kind == "swap":
            lines[at], lines[-1] = lines[-1], lines[at]
        elif kind == "insert":
            lines.insert(at, "  " + text)
        else:
            lines[at] = lines[at][: int(where * len(lines[at]))] + text
    try:
        made = parse("\n".join(lines), name)
    except ValueError as error:
        assert str(error).startswith(f"{name}:")
        return
    survive(Captured(made))


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: ascii(payload)[:24])
def test_every_file_with_the_same_nonsense(payload: str) -> None:
    for name in ("dgx-a100", "pod-sriov-vfs"):
        made = copy(TREES[name])
        made.texts = dict.fromkeys(made.texts, payload)
        survive(Captured(made))


def test_every_file_refused() -> None:
    for source in TREES.values():
        made = copy(source)
        made.refused, made.texts = dict.fromkeys(made.texts), {}
        machine = survive(Captured(made))
        assert all(port.state is None for hca in machine.hcas for port in hca.ports)


def test_every_link_in_a_circle() -> None:
    for source in TREES.values():
        made = copy(source)
        made.links = {path: path for path in made.links}
        survive(Captured(made))

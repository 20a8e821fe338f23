"""Machines from public reports with known answers (tests/cases, or the folder in RIG_CASES), planned from kernel
files."""

import glob
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from rig.plan import Setting
from rig.plan.gid import nccl_choice
from rig.plan.hca import usable_ports
from rig.plan.nccl import NcclPlan, plan_nccl
from rig.plan.nccl_facts import FAULTS, GpuGdr
from rig.plan.nccl_match import matches
from rig.plan.nccl_vars import reads
from rig.plan.socket import nccl_interfaces
from tests.case_tree import Laid, lay_out, parse_versions

FOLDER = os.environ.get("RIG_CASES") or os.path.join(os.path.dirname(__file__), "cases")
FILES = sorted(glob.glob(os.path.join(FOLDER, "*.json")))
NODE_LOCAL = ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME")
Version = tuple[int, int, int]


def cases() -> Iterator[Any]:
    for path in FILES:
        with open(path, encoding="utf-8") as file:
            case = json.load(file)
        yield pytest.param(case, id=case["id"])


def solve(case: dict[str, Any], version: Version | None = None) -> tuple[Laid, NcclPlan]:
    """The plan; where it says that it cannot tell the networks apart, the operator names the roles, as it asks."""
    laid = lay_out(case)
    plan = plan_of(laid, version)
    if any(found.id == "HCA_AMBIGUOUS" for found in plan.findings):
        laid = lay_out(case, roles=True)
        plan = plan_of(laid, version)
    return laid, plan


def plan_of(laid: Laid, version: Version | None = None) -> NcclPlan:
    return plan_nccl(
        laid.machine,
        platform=laid.platform,
        user=laid.user,
        peers=laid.peers,
        nccl_version=version or laid.version,
        nodes=laid.nodes,
        symptoms=laid.symptoms,
        unread=laid.unread,
        p2p_works=laid.p2p_works,
    )


def written(plan: NcclPlan) -> dict[str, Setting]:
    return {one.name: one for one in (*plan.environment, *plan.conf)}


def effective(laid: Laid, plan: NcclPlan, name: str) -> str | None:
    """What a rank will see, once the user has taken the advice of the findings about his own variable."""
    advice = [found for found in plan.findings if found.subject == name and found.domain == "user"]
    if advice:
        return advice[0].want if advice[0].want is None or isinstance(advice[0].want, str) else None
    if name in laid.user:
        return laid.user[name]
    setting = written(plan).get(name)
    return None if setting is None else str(setting.value)


def hca_set(laid: Laid, value: str | None) -> set[str]:
    """HCAs that NCCL takes under a filter."""
    ports = usable_ports(laid.machine)
    return {one.hca.name for one in ports if value is None or matches(value, one.hca.name, one.port.number)}


def gid_in_use(laid: Laid, plan: NcclPlan, hca: str, version: Version | None) -> int | None:
    """The index that NCCL ends up with for a device."""
    value = effective(laid, plan, "NCCL_IB_GID_INDEX")
    if value is not None:
        return int(value)
    port = next(one.port for one in usable_ports(laid.machine) if one.hca.name == hca)
    family = effective(laid, plan, "NCCL_IB_ADDR_FAMILY") or "AF_INET"
    return nccl_choice(port, version or (2, 18, 1), family=family, subnet=effective(laid, plan, "NCCL_IB_ADDR_RANGE"))


def assert_setting(laid: Laid, plan: NcclPlan, name: str, wanted: str, version: Version | None) -> None:
    """Equal in meaning: lists by what they select, an index by what is used, `<...>` by presence, others as text."""
    value = effective(laid, plan, name)
    if name == "NCCL_IB_HCA":
        assert hca_set(laid, value) == hca_set(laid, wanted)
    elif name == "NCCL_SOCKET_IFNAME":
        taken = nccl_interfaces(laid.machine, value, version), nccl_interfaces(laid.machine, wanted, version)
        assert taken[0] == taken[1]
    elif name == "NCCL_IB_GID_INDEX":
        ports = [one for one in usable_ports(laid.machine) if one.hca.name in dict(plan.gid_index)]
        assert ports and {gid_in_use(laid, plan, one.hca.name, version) for one in ports} == {int(wanted)}
    elif wanted.startswith("<"):
        assert value
    else:
        assert value == wanted


@pytest.mark.parametrize("case", list(cases()))
def test_a_reported_machine_gets_the_known_answer(case: dict[str, Any]) -> None:
    laid, plan = solve(case)
    expected = case["expected"]
    found = {one.id for one in plan.findings}
    assert plan.verdict == expected["verdict"], sorted(found)
    assert set(expected["codes"]) <= found
    assert all(one.outcome != "fail" for one in plan.findings) or plan.verdict in FAULTS
    if expected["hcas"] is not None:
        assert set(plan.hcas or ()) == set(expected["hcas"])
        if expected["hcas"]:
            assert hca_set(laid, effective(laid, plan, "NCCL_IB_HCA")) == set(expected["hcas"])
    for hca, index in (expected["gid_index"] or {}).items():
        assert dict(plan.gid_index).get(hca) == index
    if expected["socket_if"] is not None:
        assert plan.socket_if == expected["socket_if"]
    for one in (case["peer"] or {}).get("expected_gid_index") or {}:
        assert dict(laid.peers[0].gid_index or ())[one] == case["peer"]["expected_gid_index"][one]


@pytest.mark.parametrize("case", list(cases()))
def test_what_is_written_means_what_is_known_to_be_right(case: dict[str, Any]) -> None:
    laid, plan = solve(case)
    expected, lines = case["expected"], written(plan)
    for name, wanted in expected["env"].items():
        assert_setting(laid, plan, name, wanted, laid.version)
    for name in expected["env_absent"]:
        assert name not in lines
    for name, setting in lines.items():
        assert setting.reason and setting.source
        assert name in expected["env"] or name in NODE_LOCAL, f"{name}={setting.value} is not asked for"
    if not expected["env"]:
        several = len(nccl_interfaces(laid.machine, None, laid.version)) > 1
        assert set(lines) <= ({"NCCL_SOCKET_IFNAME"} if several else set())


def gdr_answers() -> Iterator[Any]:
    for param in cases():
        case = param.values[0]
        for key, text in (case["expected"]["gdr"] or {}).items():
            yield pytest.param(case, key, text, id=f"{case['id']}-{key}")


def with_peer_memory(laid: Laid, there: bool) -> NcclPlan:
    """The plan where the kernel's answer about peer memory is known: a report seldom says it."""
    files = ("nv_mem", "nvidia-peermem") if there else ()
    kernel = laid.machine.kernel._replace(memory_peers=files, nvidia_peermem=there, modules=(), dmabuf_nic=False)
    return plan_of(laid._replace(machine=laid.machine._replace(kernel=kernel)))


def rungs(plan: NcclPlan, key: str) -> list[GpuGdr]:
    """The rungs that an answer's key is about; never none where the case has such a GPU."""
    return [one for one in plan.gdr if not key.startswith("GPU") or key == "GPUi" or one.gpu in numbers(key)]


def assert_on(laid: Laid, plan: NcclPlan, key: str, text: str) -> None:
    """Nothing stands in the way, and it is peer memory that decides: on with it, off without it."""
    told = rungs(plan, key)
    assert plan.verdict == "rdma-ok" and told
    assert not {"GDR_OFF", "GDR_TOO_FAR"} & {one.id for one in plan.findings}
    assert all(one.accepted is not False and one.within_limit is not False for one in told)
    assert all(one.accepted is False for one in rungs(with_peer_memory(laid, False), key))
    for one in rungs(with_peer_memory(laid, True), key):  # a distance that nobody reported stays unknown
        assert one.accepted is (True if one.distance is not None else None)
    if "(" in text:
        assert {one.distance for one in told} & set(text.partition("(")[2].rstrip(")").split("/"))


def assert_off(laid: Laid, plan: NcclPlan, key: str, text: str) -> None:
    """Off, and said: for each GPU of the case, and by a finding or the verdict."""
    told = rungs(plan, key)
    assert bool(told) == bool(laid.machine.gpus)
    assert all(one.accepted is False for one in told)
    assert plan.verdict != "rdma-ok"
    reasons = {"GDR_OFF", "GDR_TOO_FAR", "ACS_ENABLED", "ACS_SUSPECTED"} & {one.id for one in plan.findings}
    assert reasons
    if "(" in text:
        assert {one.distance for one in told} == {text.partition("(")[2].rstrip(")")}
    if reasons == {"GDR_TOO_FAR"}:  # peer memory does not help what is too far away
        assert all(one.accepted is False for one in rungs(with_peer_memory(laid, True), key))


@pytest.mark.parametrize(("case", "key", "text"), list(gdr_answers()))
def test_gpudirect_is_judged_as_known(case: dict[str, Any], key: str, text: str) -> None:
    laid, plan = solve(case)
    if key == "storage":
        left_out = {one.hca.name for one in usable_ports(laid.machine)} - set(plan.hcas or ())
        assert left_out and text == "off (SYS)"
    elif text == "not applicable" or "plugin" in text:  # no HCA that NCCL itself would drive
        assert plan.gdr == () and plan.hcas == ()
        assert ("plugin" in text) == bool({"EFA_NEEDS_PLUGIN", "VENDOR_PLUGIN_NEEDED"} & {f.id for f in plan.findings})
    elif text.startswith("off in "):
        off, on = (part.split(" in ")[1] for part in text.split(", "))
        for version in (*named_versions(off), *named_versions(on)):
            _, then = solve(case, version)
            shut = version < named_versions(on)[0]
            assert then.verdict == ("degraded" if shut else "rdma-ok")
            assert ("GDR_OFF" in {one.id for one in then.findings}) == shut
    elif text.startswith(("off", "must stay off")):
        assert_off(laid, plan, key, text)
    else:
        assert text.startswith(("on", "expected on")), "no rule reads this answer"
        assert_on(laid, plan, key, text.replace("with topology file ", ""))


def numbers(key: str) -> range:
    """GPUs that a key such as `GPU0` or `GPU4-7` names."""
    first, _, last = key.removeprefix("GPU").partition("-")
    return range(int(first), int(last or first) + 1)


def named_versions(key: str) -> list[Version]:
    """Versions that a key such as `2.18-2.20`, `<=2.20.5`, `2.26.2+` or `<2.19.1` stands for."""
    found = parse_versions(key)
    if not found:
        return []
    if key.startswith("<") and not key.startswith("<="):
        return [(2, 18, 1)]
    return [*found, (2, 18, 3)] if key.startswith("<=") else found


def versions() -> Iterator[Any]:
    for param in cases():
        case = param.values[0]
        for key, text in case["expected"]["per_version"].items():
            for version in named_versions(key):
                dotted = ".".join(map(str, version))
                yield pytest.param(case, version, text, id=f"{case['id']}-{dotted}")


@pytest.mark.parametrize(("case", "version", "text"), list(versions()))
def test_the_answer_follows_the_nccl_version(case: dict[str, Any], version: Version, text: str) -> None:
    laid, plan = solve(case, version)
    for name in written(plan):
        assert reads(name, version) is not False
    for hca, index in (case["expected"]["gid_index"] or {}).items():
        assert dict(plan.gid_index).get(hca) == index
        assert hca not in (plan.hcas or ()) or gid_in_use(laid, plan, hca, version) == index
    for word in text.replace(",", " ").split():
        name, _, value = word.partition("=")
        if name in (*NODE_LOCAL, "NCCL_IB_ADDR_FAMILY") and value and f"set {word}" in text:
            assert_setting(laid, plan, name, value, version)
    if "must be set" in text or "set the index" in text or "explicit index needed" in text:
        assert effective(laid, plan, "NCCL_IB_GID_INDEX") is not None
    if "may be left unset" in text or "unset is fine" in text:
        assert "NCCL_IB_GID_INDEX" not in written(plan)


@pytest.mark.parametrize("case", list(cases()))
def test_without_a_platform_file_its_owners_choices_are_not_guessed(case: dict[str, Any]) -> None:
    laid = lay_out(case)
    for one in written(plan_of(laid._replace(platform=None))).values():
        assert one.source == "detection"
        assert one.name not in ("NCCL_IB_TC", "NCCL_IB_SL", "NCCL_TOPO_FILE", "NCCL_IB_TIMEOUT", "NCCL_CROSS_NIC")


def test_there_are_cases() -> None:
    assert FILES, f"no case in {FOLDER}"

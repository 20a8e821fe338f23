"""What these families do not know never passes, and of what cannot be they are silent."""

import pytest

from checks import Check, Result, evaluate
from checks.catalogue import FAMILIES, family_checks
from rig.snapshot import Probe, Snapshot
from tests.checks.snapshots import h100, no_gpu, roce
from tests.checks.twin import changed

OURS = ("limits", "system", "storage", "drives", "network")
CHECKS: dict[str, Check] = {one.id: one for family in OURS for one in family_checks(family)}
BARE = h100()  # a host without containers


def judged(name: str, now: Snapshot) -> Result:
    return evaluate(CHECKS[name], now)


def test_the_families_are_in_the_catalogue() -> None:
    assert set(OURS) <= set(FAMILIES)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("memlock_is_unlimited", "machine__limits__memlock_bytes"),
        ("shared_memory_is_large_enough", "machine__limits__shm_bytes"),
        ("shared_memory_is_free", "machine__limits__shm_free_bytes"),
        ("open_files_are_enough", "machine__limits__nofile"),
        ("processes_are_enough", "machine__limits__pids"),
        ("cpus_are_enough", "machine__limits__cpus"),
        ("memory_is_enough_to_start", "machine__limits__memory_bytes"),
        ("memory_holds_what_the_gpus_hold", "machine__limits__memory_bytes"),
        ("user_may_start_processes", "host__process_limit"),
        ("stack_is_large_enough", "host__stack_bytes"),
        ("numa_memory_can_be_bound", "host__seccomp"),
        ("cpus_are_near_every_gpu", "host__cpuset"),
        ("no_process_is_stuck", "host__stuck"),
        ("no_zombie_remains", "host__stuck"),
        ("clock_is_synchronised", "host__clock_synced"),
        ("clock_is_synchronised", "host__clock_error_us"),
        ("cpu_clocks_are_not_held_low", "host__governors"),
        ("huge_pages_leave_memory", "host__hugepages_bytes"),
        ("memory_is_available", "host__memory_available_bytes"),
        ("memory_may_be_overcommitted", "host__overcommit"),
        ("mappings_are_enough", "host__mappings"),
        ("core_dumps_do_not_fill_the_disk", "host__core_bytes"),
        ("file_systems_answer", "host__silent_mounts"),
        ("raids_are_whole", "host__raids"),
    ],
)
def test_an_unknown_value_is_unknown(name: str, field: str) -> None:
    assert judged(name, roce()).outcome == "pass"
    assert judged(name, changed(roce(), **{field: None})).outcome == "unknown"


@pytest.mark.parametrize("name", [one.id for one in family_checks("storage")])
def test_without_mounts_nothing_is_said_of_them(name: str) -> None:
    assert judged(name, changed(h100(), host__mounts=(), host__silent_mounts=None)).outcome == "unknown"


def test_a_hosts_root_group_has_no_limits() -> None:
    now = changed(BARE, machine__limits__pids=None, machine__limits__memory_bytes=None)
    assert judged("processes_are_enough", now).outcome == "pass"
    assert judged("memory_is_enough_to_start", now).outcome == "pass"
    assert judged("memory_holds_what_the_gpus_hold", now).outcome == "pass"


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("main_memory_has_no_errors", "edac_uncorrected"),  # a guest, or a board without ECC
        ("nvme_drives_are_live", "nvme"),
        ("file_systems_have_no_errors", "fs_errors"),
    ],
)
def test_what_a_machine_does_not_have_is_skipped(name: str, field: str) -> None:
    assert judged(name, BARE).outcome == "pass"
    assert judged(name, changed(BARE, **{f"host__{field}": None})).outcome == "skip"


def test_a_failure_is_told_though_another_file_system_is_not_known() -> None:
    full = changed(no_gpu(), host__mounts__0__free_bytes=0, host__mounts__1__total_bytes=None)
    result = judged("disk_has_room", full)
    assert result.outcome == "fail" and {one.outcome for one in result.findings} == {"fail", "unknown"}


@pytest.mark.parametrize("state", ["failed", "unresponsive", "absent", "unasked"])
@pytest.mark.parametrize("name", ["shared_memory_holds_what_it_promises", "work_disk_is_fast_enough"])
def test_a_probe_that_did_not_end_well_is_unknown(name: str, state: str) -> None:
    probe = CHECKS[name].probe or ""
    assert judged(name, changed(no_gpu(), probes={probe: Probe(probe, state)})).outcome == "unknown"
    assert judged(name, changed(no_gpu(), probes={})).outcome == "unknown"


def test_a_disk_without_room_for_the_probe_is_unknown() -> None:
    told = Probe("disk", "ok", {"path": "/data", "error": "only 5 bytes are free: nothing was written"})
    assert judged("work_disk_is_fast_enough", changed(no_gpu(), probes={"disk": told})).outcome == "unknown"


def test_one_node_skips_what_concerns_several() -> None:
    skipped = {name for name in CHECKS if judged(name, changed(no_gpu(), plan__hostfile=())).outcome == "skip"}
    assert {one.id for one in family_checks("network")} <= skipped

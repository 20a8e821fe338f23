"""Fixtures of the family system."""

from rig.host import Stuck
from tests.checks.snapshots import a100, h100, no_gpu, roce, rtx4090
from tests.checks.twin import Twin, changed

GIB, MIB = 1 << 30, 1 << 20

TWINS = (
    Twin(
        "no_process_is_stuck",
        changed(h100(), host__stuck=(Stuck(4321, "nvidia-smi", "D", 7200.0),)),
        h100(),
        says="4321 (nvidia-smi) hangs in the kernel, state D, started 120 min ago",
        fix="Reboot",
        domain="host",
        reported=("leptonai/gpud#117", "NVIDIA/NVSentinel#1576"),
    ),
    Twin(
        "no_process_is_stuck",
        changed(no_gpu(), host__stuck=(Stuck(77, "rsync", "D"),)),
        changed(no_gpu(), host__stuck=(Stuck(78, "rsync", "Z", 20.0),)),
        says="77 (rsync)",
        fix="cat /proc/77/stack",
        domain="host",
        outcome="warn",
    ),
    *(
        Twin(  # training may wait for a file server as well as for the driver
            "no_process_is_stuck",
            changed(h100(), host__stuck=(Stuck(4321, comm, "D"),)),
            h100(),
            says="by storage or the driver",
            fix="cat /proc/4321/stack",
            domain="host",
            outcome="warn",
        )
        for comm in ("python3", "torchrun", "pt_main_thread", "pt_data_worker")
    ),
    Twin(
        "no_zombie_remains",
        changed(h100(), host__stuck=(Stuck(9, "python3", "Z", 900.0),)),
        changed(h100(), host__stuck=(Stuck(9, "python3", "Z", 20.0),)),
        says="1 zombie: 9 (python3)",
        fix="--init",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "clock_is_synchronised",
        changed(h100(), host__clock_synced=False, host__clock_error_us=None),
        h100(),
        says="no time service",
        fix="chrony",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "clock_is_synchronised",
        changed(h100(), host__clock_error_us=2_500_000),
        changed(h100(), host__clock_error_us=1_030_000),  # just before timesyncd looks again
        says="wrong by 2500 ms",
        fix="chronyc tracking",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "main_memory_has_no_errors",
        changed(a100(), host__edac_uncorrected=2),
        a100(),
        says="2 uncorrected errors",
        fix="DIMM",
        domain="host",
    ),
    Twin(
        "main_memory_has_no_errors",
        changed(a100(), host__edac_corrected=5000),
        changed(a100(), host__edac_corrected=40),
        says="5000 corrected",
        fix="DIMM",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "cpu_clocks_are_not_held_low",
        changed(rtx4090(), host__governors=("powersave",)),
        changed(rtx4090(), host__governors=("powersave",), host__governor_drivers=("intel_pstate",)),
        says="lowest clock",
        fix="cpupower",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "huge_pages_leave_memory",
        changed(h100(), host__hugepages_bytes=1500 * GIB),
        changed(h100(), host__hugepages_bytes=10 * GIB),
        says="huge pages hold 1500 of 2048 GiB",
        fix="vm.nr_hugepages",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "memory_is_available",
        changed(no_gpu(), host__memory_available_bytes=300 * MIB),
        no_gpu(),
        says="0.3 GiB",
        fix="larger machine",
        domain="host",
    ),
    Twin(
        "memory_is_available",
        changed(h100(), host__memory_available_bytes=8 * GIB),
        h100(),
        says="8.0 GiB",
        fix="/dev/shm",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "memory_holds_what_the_gpus_hold",
        changed(roce(), machine__limits__memory_bytes=128 * GIB),
        rtx4090(),
        says="128 GiB of main memory for",
        fix="--memory",
        domain="platform",
        outcome="warn",
    ),
    Twin(
        "memory_may_be_overcommitted",
        changed(h100(), host__overcommit=2),
        changed(h100(), host__overcommit=1),
        says="refuses address space",
        fix="vm.overcommit_memory=0",
        domain="host",
    ),
    Twin(
        "mappings_are_enough",
        changed(no_gpu(), host__mappings=1024),
        no_gpu(),
        says="1024 mappings",
        fix="vm.max_map_count",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "core_dumps_do_not_fill_the_disk",
        changed(roce(), host__core_bytes=-1),
        changed(roce(), host__core_bytes=-1, host__core_pattern="|/usr/share/apport/apport %p"),
        says="dumps its memory to core",
        fix="--ulimit core=0",
        domain="host",
        outcome="warn",
    ),
)

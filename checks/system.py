"""The operating system around training: processes that hang, the clock, main memory, kernel settings."""

from checks import check, known, say
from checks.needs import EDAC, GPU, HOST
from rig.finding import Finding
from rig.host import Host
from rig.lean import Any, Iterator
from rig.machine import UNLIMITED
from rig.snapshot import Snapshot

GIB = 1 << 30
OF_THE_DRIVER = ("nvidia", "nv_", "nvc", "dcgm")  # beginnings of comm: they wait for nothing but the driver
ZOMBIE_OLD_S = 300
# The kernel adds 500 us each second since a time service last set the clock, and timesyncd does so every 2048 s.
CLOCK_ERROR_MOST_US = 1_500_000
CORRECTED_MANY = 1000
HUGEPAGES_SHARE = 0.25
AVAILABLE_LEAST, AVAILABLE_A_GPU = GIB, 2 * GIB
MAPPINGS_LEAST = 65530  # the kernel's own default
DYNAMIC = ("intel_pstate", "amd-pstate-epp")  # for these `powersave` is the usual governor, and follows the load


def _host(now: Snapshot) -> Host:
    return known(now.host, "the host")  # type: ignore[no-any-return]


def _asked(now: Snapshot, name: str, what: str) -> Any:
    return known(getattr(_host(now), name), what)


def _age(seconds: float | None) -> str:
    return "" if seconds is None else f", started {seconds / 60:.0f} min ago"


@check(
    at="quick",
    needs=(HOST,),
    domain="host",
    fix="Reboot the host (nothing else ends such a process), or return the machine; read the kernel's log for an Xid",
)
def no_process_is_stuck(now: Snapshot) -> Iterator[Finding]:
    """No process sleeps where not even SIGKILL reaches it.

    State D is a call into the kernel that does not come back. It was looked at three times within two seconds, and
    the process had not run in between. Of the driver's own programs that is a failure: a driver that hangs stays so.
    Others, training too, may wait for a disk or a file server (NFS, Lustre): a warning, and their stack tells for what.

    Symptom: nvidia-smi hangs, `kill -9` does nothing, the GPU's memory stays in use.
    Source: /proc/PID/stat; leptonai/gpud#117 (nvidia-smi in D after Xid 45), NVIDIA/NVSentinel#1576.
    """
    for one in _asked(now, "stuck", "the processes"):
        if one.state == "D":
            text = f"process {one.pid} ({one.comm}) hangs in the kernel, state D{_age(one.seconds)}"
            if one.comm.startswith(OF_THE_DRIVER):
                yield say(text, one.comm, got=one.pid)
            else:
                fix = f"On the host: cat /proc/{one.pid}/stack (nfs, lustre, nvme: mend the storage; nvidia: reboot)"
                yield say(f"{text}: by storage or the driver", one.comm, got=one.pid, fix=fix, outcome="warn")


@check(
    at="quick",
    needs=(HOST,),
    domain="user",
    severity="warn",
    fix="End the parent process; start containers with an init: docker run --init, or this image's own entrypoint",
)
def no_zombie_remains(now: Snapshot) -> Iterator[Finding]:
    """Dead processes are collected by their parents.

    A zombie keeps its process number, and one with a thread that still hangs in the driver keeps GPU memory. Only
    those that started more than 5 minutes ago are told.

    Symptom: GPU memory in use by a process that cannot be found; `can't start new thread` after days.
    Source: /proc/PID/stat; five minutes as in facebookresearch/gcm's check.
    """
    old = [
        one
        for one in _asked(now, "stuck", "the processes")
        if one.state == "Z" and known(one.seconds, f"how long {one.pid} has been there") > ZOMBIE_OLD_S
    ]
    if old:
        named = ", ".join(f"{one.pid} ({one.comm})" for one in old[:4])
        text = f"{len(old)} zombie{'s' * (len(old) > 1)}: {named}{' ...' * (len(old) > 4)}"
        yield say(text, "zombies", 0, len(old))


@check(
    at="quick",
    needs=(HOST,),
    domain="host",
    severity="warn",
    fix="On the host: start chrony or systemd-timesyncd (timedatectl set-ntp true)",
)
def clock_is_synchronised(now: Snapshot) -> Iterator[Finding]:
    """Somebody keeps the clock right.

    The kernel knows whether a time service disciplines its clock, and how large the error may be. That bound grows
    between two corrections, to a second where they are half an hour apart; more tells that they have stopped.

    Symptom: certificates `not yet valid`, tokens refused, logs of two nodes that cannot be compared, rendezvous that
    expire at once.
    Source: adjtimex(2), STA_UNSYNC and maxerror; kernel/time/ntp.c (MAXFREQ), timesyncd.conf(5), PollIntervalMaxSec.
    """
    if not _asked(now, "clock_synced", "the state of the clock"):
        yield say("no time service keeps this host's clock", "clock", True, False)
        return
    error = _asked(now, "clock_error_us", "the error of the clock")
    if error > CLOCK_ERROR_MOST_US:
        text = f"the clock may be wrong by {error / 1000:.0f} ms"
        yield say(text, "clock", CLOCK_ERROR_MOST_US, error, fix="On the host: chronyc tracking; check its servers")


@check(at="quick", needs=(HOST, EDAC), domain="host", fix="Have the DIMM replaced, or return the machine")
def main_memory_has_no_errors(now: Snapshot) -> Iterator[Finding]:
    """The memory controllers have counted no error that ECC could not correct.

    Uncorrected errors of the host's memory are a failure; more than 1000 corrected ones a warning, because they
    announce the others. Guests, most containers and boards without ECC show no counters.

    Symptom: machine check exceptions, random crashes, a wrong loss now and then.
    Source: ue_count and ce_count of /sys/devices/system/edac/mc/mc*.
    """
    host = _host(now)
    wrong = known(host.edac_uncorrected, "the error counters of the main memory")
    if wrong:
        yield say(f"{wrong} uncorrected errors of the main memory", "edac", 0, wrong)
    if known(host.edac_corrected, "the count of corrected errors") > CORRECTED_MANY:
        text = f"{host.edac_corrected} corrected errors of the main memory"
        yield say(text, "edac", CORRECTED_MANY, host.edac_corrected, outcome="warn")


@check(
    at="quick",
    needs=(HOST, GPU),
    domain="host",
    severity="warn",
    fix="On the host: cpupower frequency-set -g performance",
)
def cpu_clocks_are_not_held_low(now: Snapshot) -> Iterator[Finding]:
    """No CPU is kept at its lowest clock.

    The governor `powersave` means that with drivers such as acpi-cpufreq. With intel_pstate and amd-pstate it is the
    usual one and follows the load; guests have no governor: both are right.

    Symptom: kernels are launched late, small steps take twice as long, and the GPUs idle between them.
    Source: Documentation/admin-guide/pm/cpufreq.rst, scaling_governor and scaling_driver.
    """
    governors = _asked(now, "governors", "the CPUs' governors")
    if "powersave" not in governors:
        return
    drivers = _asked(now, "governor_drivers", "the CPUs' clock driver")
    if not drivers or not set(drivers) <= set(DYNAMIC):
        yield say("CPUs are held at their lowest clock", "governor", "performance", "powersave")


@check(
    at="quick",
    needs=(HOST,),
    domain="host",
    severity="warn",
    fix="On the host: sysctl vm.nr_hugepages=0, or fewer",
)
def huge_pages_leave_memory(now: Snapshot) -> Iterator[Finding]:
    """Reserved huge pages do not starve the rest.

    They are taken from the main memory when they are reserved, used or not. EFA wants some; more than a quarter of
    all memory is more than training uses.

    Symptom: out of memory, though much of it seems to be free.
    Source: Hugetlb in /proc/meminfo, Documentation/admin-guide/mm/hugetlbpage.rst.
    """
    reserved = _asked(now, "hugepages_bytes", "the reserved huge pages")
    total = _asked(now, "memory_bytes", "the main memory")
    if reserved > HUGEPAGES_SHARE * total:
        text = f"huge pages hold {reserved / GIB:.0f} of {total / GIB:.0f} GiB"
        yield say(text, "hugepages", int(HUGEPAGES_SHARE * total), reserved)


@check(
    at="quick",
    needs=(HOST,),
    domain="host",
    fix="Find who uses it (ps aux --sort=-rss | head; other tenants; files in /dev/shm), or take a larger machine",
)
def memory_is_available(now: Snapshot) -> Iterator[Finding]:
    """The host has memory left to start with: 1 GiB, and 2 GiB for each GPU as a warning.

    What other tenants, dead jobs and a full /dev/shm hold is not available, whatever the container's limit says.

    Symptom: exit code 137, `Killed`, on a machine that is large enough.
    Source: MemAvailable in /proc/meminfo.
    """
    free = _asked(now, "memory_available_bytes", "the available memory")
    want = max(AVAILABLE_LEAST, AVAILABLE_A_GPU * len(now.machine.gpus))
    if free < want:
        text = f"{free / GIB:.1f} GiB of memory are available"
        yield say(text, "memory", want, free, outcome="fail" if free < AVAILABLE_LEAST else "warn")


@check(
    at="quick",
    needs=(HOST, GPU),
    domain="platform",
    severity="warn",
    fix="docker run without --memory; else load and save checkpoints in shards, and do not offload to the CPU",
)
def memory_holds_what_the_gpus_hold(now: Snapshot) -> Iterator[Finding]:
    """The main memory is as large as that of all GPUs together.

    Loading a checkpoint, gathering one to save it and offloading the optimizer all bring to the host what the GPUs
    hold. With less, training runs until it does one of these.

    Symptom: exit code 137 at the first checkpoint, or while a model is loaded by every rank.
    Source: MemTotal, memory.max; DeepSpeed's estimate_zero3_model_states_mem_needs.
    """
    total = _asked(now, "memory_bytes", "the main memory")
    limit = now.machine.limits.memory_bytes
    if limit is None and now.machine.surroundings.container is None:
        limit = UNLIMITED  # the root group has no file for it
    have = total if known(limit, "the memory limit") == UNLIMITED else min(total, limit)
    need = sum(known(gpu.memory_bytes, "the memory of the GPUs") for gpu in now.machine.gpus)
    if have < need:
        text = f"{have / GIB:.0f} GiB of main memory for {need / GIB:.0f} GiB on the GPUs"
        yield say(text, "memory", need, have)


@check(at="quick", needs=(HOST, GPU), domain="host", fix="On the host: sysctl vm.overcommit_memory=0")
def memory_may_be_overcommitted(now: Snapshot) -> Iterator[Finding]:
    """The kernel grants address space that is not yet used.

    CUDA reserves as many addresses as all GPUs and the host have memory. With vm.overcommit_memory=2 the kernel counts
    them as used and refuses; forking data loaders fails as well.

    Symptom: `cuInit` or `fork` fails with out of memory while nearly all memory is free.
    Source: Documentation/mm/overcommit-accounting.rst.
    """
    if _asked(now, "overcommit", "vm.overcommit_memory") == 2:
        yield say("the kernel refuses address space that is not backed", "vm.overcommit_memory", 0, 2)


@check(
    at="quick",
    needs=(HOST,),
    domain="host",
    severity="warn",
    fix=f"On the host: sysctl vm.max_map_count={4 * MAPPINGS_LEAST}",
)
def mappings_are_enough(now: Snapshot) -> Iterator[Finding]:
    """A process may map as many files as the kernel's default allows: 65530.

    torch, NCCL and memory-mapped data sets take a mapping for each segment and file.

    Symptom: `Cannot allocate memory` from mmap with memory left.
    Source: vm.max_map_count, Documentation/admin-guide/sysctl/vm.rst.
    """
    most = _asked(now, "mappings", "vm.max_map_count")
    if most < MAPPINGS_LEAST:
        yield say(f"a process may have {most} mappings", "vm.max_map_count", MAPPINGS_LEAST, most)


@check(
    at="quick",
    needs=(HOST, GPU),
    domain="host",
    severity="warn",
    fix="docker run --ulimit core=0, or `ulimit -c 0` before training",
)
def core_dumps_do_not_fill_the_disk(now: Snapshot) -> Iterator[Finding]:
    """A crash does not write the memory of every rank to the disk.

    Where core dumps are not limited and go to a file (not to a program, `|...`), each rank that crashes writes all
    that it had mapped: tens to hundreds of GB, beside the checkpoints.

    Symptom: a disk that is full after a crash; ranks that take minutes to die.
    Source: core(5), RLIMIT_CORE, /proc/sys/kernel/core_pattern.
    """
    limit = _asked(now, "core_bytes", "the limit of core dumps")
    if limit != UNLIMITED and limit < GIB:
        return
    pattern = _asked(now, "core_pattern", "the kernel's core pattern")
    if not pattern.startswith("|"):
        yield say(f"each rank that crashes dumps its memory to {pattern}", "core", 0, limit)

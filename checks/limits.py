"""Limits that the container or the host sets on a training process."""

from checks import check, known, say
from checks.needs import CONTAINER, GPU_EXPECTED, GPUS, HOST, RDMA_EXPECTED
from rig.finding import Finding
from rig.lean import Iterator
from rig.machine import UNLIMITED
from rig.snapshot import Snapshot

MIB, GIB = 1 << 20, 1 << 30
MEMLOCK_ENOUGH = 64 * GIB  # more than any job pins
SHM_LEAST, SHM_LOADERS = GIB, 512 * MIB
SHM_A_GPU = 20 * MIB  # two connectors of 9.2 MiB for each GPU, NCCL 2.18 to 2.21
NOFILE_LEAST, NOFILE_ENOUGH = 1024, 65536
PIDS_A_RANK, PIDS_ENOUGH = 64, 4096  # threads of autograd, OpenMP, NCCL and the loaders
CPUS_A_GPU = 4
HOST_MEMORY_A_GPU = 3 * GIB  # a CUDA context, torch, pinned buffers
HOST_MEMORY_A_RANK = GIB // 2  # torch alone, on CPUs
STACK_LEAST = 8 * MIB


def _ranks(now: Snapshot) -> int:
    """Processes that training starts on this node."""
    told = [line.value for line in now.plan.ranks if line.name == "local_ranks"]
    return int(told[0]) if told else max(1, len(now.machine.gpus))


def _of_the_group(now: Snapshot, limit: int | None) -> int | None:
    """A limit of the control group. A host's own processes are in the root group, which has no files of limits."""
    return UNLIMITED if limit is None and now.machine.surroundings.container is None else limit


def _size(count: int) -> str:
    return f"{count / GIB:.3g} GiB" if count >= GIB else f"{count / MIB:.3g} MiB" if count >= MIB else f"{count} bytes"


@check(
    at="boot",
    needs=(RDMA_EXPECTED,),
    domain="user",
    fix="docker run --ulimit memlock=-1 (Kubernetes: add the capability IPC_LOCK)",
    covers=("MEMLOCK_TOO_SMALL",),
)
def memlock_is_unlimited(now: Snapshot) -> Iterator[Finding]:
    """RDMA buffers can be pinned.

    Memory that a HCA reads and writes must stay in place, and counts against RLIMIT_MEMLOCK of the process, unless it
    has CAP_IPC_LOCK. With Docker's usual limit registration fails with ENOMEM, and NCCL falls back to TCP without a
    word. Where nobody counts on RDMA (one node, none sold) this is a warning.

    Symptom: ten times slower than sold; `ibv_reg_mr failed: Cannot allocate memory`.
    Source: ib_umem_get() in drivers/infiniband/core/umem.c; NVIDIA/nccl-tests#206, microsoft/superbenchmark#569.
    """
    from checks.rails import gravity  # loaded only where there is RDMA, as the rest of what judges it

    limit = known(now.machine.limits.memlock_bytes, "the memlock limit")
    exempt = "CAP_IPC_LOCK" in (now.machine.surroundings.capabilities or ())
    if limit != UNLIMITED and limit < MEMLOCK_ENOUGH and not exempt:
        text = f"memlock is {limit} bytes: RDMA falls back to TCP"
        yield say(text, "memlock", UNLIMITED, limit, outcome=gravity(now))


@check(
    at="boot",
    needs=(GPU_EXPECTED,),
    domain="user",
    fix="docker run --ipc=host, or --shm-size=8g (Kubernetes: a memory-backed emptyDir on /dev/shm)",
    covers=("SHM_TOO_SMALL",),
)
def shared_memory_is_large_enough(now: Snapshot) -> Iterator[Finding]:
    """/dev/shm has room for NCCL and the data loaders: 1 GiB at least.

    GPUs without peer access talk through it, NCCL's proxies too, and each worker of a DataLoader passes its batches
    there. Docker gives a container 64 MB unless it is told otherwise.

    Symptom: `Bus error (core dumped)` in a DataLoader; `Error while creating shared memory segment` from NCCL.
    Source: NVIDIA/nccl#342, NVIDIA/nccl#290; ds_report warns below 512 MB (deepspeed/env_report.py).
    """
    size = known(now.machine.limits.shm_bytes, "the size of /dev/shm")
    if size < SHM_LEAST:
        yield say(f"/dev/shm has {_size(size)}: data loaders and NCCL need 1 GiB or more", "/dev/shm", SHM_LEAST, size)


@check(
    at="boot",
    needs=(GPU_EXPECTED,),
    domain="user",
    fix="restart the container; with --ipc=host ask `fuser -v /dev/shm/*` first, and delete only what nobody has open",
)
def shared_memory_is_free(now: Snapshot) -> Iterator[Finding]:
    """Nothing has filled /dev/shm.

    Processes that were killed leave their segments behind, and they stay until somebody deletes them: a full /dev/shm
    is as bad as a small one. Less room than NCCL's own buffers take is a failure. With --ipc=host it is the host's, and
    segments of running jobs lie beside the dead ones'.

    Symptom: training that ran yesterday ends with `No space left on device` or a bus error.
    Source: shm_overview(7); NVIDIA/nccl#290.
    """
    limits = now.machine.limits
    size = known(limits.shm_bytes, "the size of /dev/shm")
    free = known(limits.shm_free_bytes, "the free space of /dev/shm")
    least = max(SHM_A_GPU * len(now.machine.gpus), 64 * MIB)
    if size >= SHM_LEAST and free < SHM_LOADERS:
        text = f"only {_size(free)} of the {_size(size)} in /dev/shm are free"
        yield say(text, "/dev/shm", SHM_LOADERS, free, outcome="fail" if free < least else "warn")


@check(
    at="quick",
    domain="user",
    severity="warn",
    fix="docker run --ipc=host, or --shm-size=2g; or DataLoader(num_workers=0)",
)
def data_loaders_have_shared_memory(now: Snapshot) -> Iterator[Finding]:
    """Worker processes of a DataLoader can pass batches, on a machine without GPUs too.

    They do it through /dev/shm, of which Docker gives 64 MB, and which dead processes fill. With GPUs,
    shared_memory_is_large_enough and shared_memory_is_free ask for more.

    Symptom: `DataLoader worker (pid N) is killed by signal: Bus error`.
    Source: torch.multiprocessing, "Sharing strategies"; NVIDIA/nccl#290.
    """
    size = known(now.machine.limits.shm_bytes, "the size of /dev/shm")
    if GPU_EXPECTED.met(now):
        return
    free = known(now.machine.limits.shm_free_bytes, "the free space of /dev/shm")
    if size < SHM_LOADERS:
        yield say(f"/dev/shm has {_size(size)}", "/dev/shm", SHM_LOADERS, size)
    elif free < SHM_LOADERS:
        text = f"only {_size(free)} of the {_size(size)} in /dev/shm are free"
        yield say(text, "/dev/shm", SHM_LOADERS, free, fix="look at ls -l /dev/shm; delete what nobody has open")


@check(at="boot", domain="user", fix="docker run --ulimit nofile=1048576:1048576, or `ulimit -n` up to the hard limit")
def open_files_are_enough(now: Snapshot) -> Iterator[Finding]:
    """A process may open the files and sockets that training needs.

    Each rank holds sockets to its peers, files of its data set and a descriptor for each tensor that a worker shares.
    Under 1024 training fails; with GPUs less than 65536 is a warning, because it is met only at scale.

    Symptom: `OSError: [Errno 24] Too many open files`, `received 0 items of ancdata`.
    Source: getrlimit(2); soft limit in /proc/self/limits.
    """
    limit = known(now.machine.limits.nofile, "the limit of open files")
    if limit == UNLIMITED or limit >= NOFILE_ENOUGH or (limit >= NOFILE_LEAST and not GPU_EXPECTED.met(now)):
        return
    outcome = "fail" if limit < NOFILE_LEAST else "warn"
    yield say(f"a process may open {limit} files", "nofile", NOFILE_ENOUGH, limit, outcome=outcome)


@check(at="boot", domain="user", fix="docker run --pids-limit=-1 (Kubernetes: podPidsLimit of the kubelet)")
def processes_are_enough(now: Snapshot) -> Iterator[Finding]:
    """The control group lets every rank start its threads.

    Threads count as processes: a rank has those of autograd, OpenMP, NCCL and its loaders. Fewer than 64 a rank is a
    failure; with GPUs, fewer than 4096 in all a warning.

    Symptom: `RuntimeError: can't start new thread`, `pthread_create failed: Resource temporarily unavailable`.
    Source: pids.max, Documentation/admin-guide/cgroup-v2.rst.
    """
    limit = known(_of_the_group(now, now.machine.limits.pids), "the limit of processes")
    least = PIDS_A_RANK * (_ranks(now) + 1)
    if limit == UNLIMITED or limit >= max(PIDS_ENOUGH, least) or (limit >= least and not GPU_EXPECTED.met(now)):
        return
    text = f"the container may run {limit} processes and threads, for {_ranks(now)} ranks"
    yield say(text, "pids", max(PIDS_ENOUGH, least), limit, outcome="fail" if limit < least else "warn")


@check(
    at="boot",
    domain="user",
    fix="docker run without --cpus and --cpuset-cpus, or with 4 CPUs and more a GPU (--cpus=32 for eight)",
)
def cpus_are_enough(now: Snapshot) -> Iterator[Finding]:
    """Every GPU has CPUs that feed it: 4 or more; less than one for each GPU, or less than one at all, is a failure.

    A rank needs one CPU for Python, one for NCCL's proxy thread, which spins, and some for its data loaders. A quota
    shared by all stops all of them until the next period.

    Symptom: GPUs idle half of the time; an all-reduce that takes ten times as long now and then.
    Source: cpu.max and cpuset, Documentation/admin-guide/cgroup-v2.rst; the threshold is an own one.
    """
    cpus = known(now.machine.limits.cpus, "the number of CPUs")
    gpus = min(len(now.machine.gpus), _ranks(now))
    if cpus < 0 or cpus >= max(1, CPUS_A_GPU * gpus):
        return
    text = f"this process has {cpus:g} CPUs" + (f" for {gpus} GPU{'s' * (gpus > 1)}" if gpus else "")
    outcome = "fail" if cpus < max(1, gpus) else "warn"
    yield say(text, "cpus", max(1, CPUS_A_GPU * gpus), cpus, outcome=outcome)


@check(at="boot", domain="user", fix="docker run without --memory, or with more (--memory=64g)")
def memory_is_enough_to_start(now: Snapshot) -> Iterator[Finding]:
    """Every rank can load its libraries: 3 GiB of main memory for each GPU, half a GiB for each rank without.

    The control group's limit counts, or what the host has, if that is less. A rank that meets it is killed by the
    kernel, without a message of its own.

    Symptom: exit code 137, `Killed`, before the first step.
    Source: memory.max, Documentation/admin-guide/cgroup-v2.rst.
    """
    limit = known(_of_the_group(now, now.machine.limits.memory_bytes), "the memory limit")
    have = sum(node.memory_bytes or 0 for node in now.machine.numa)
    limit = min(limit if limit != UNLIMITED else have, have or limit)
    ranks = _ranks(now)
    need = ranks * (HOST_MEMORY_A_GPU if now.machine.gpus else HOST_MEMORY_A_RANK)
    if 0 < limit < need:
        yield say(f"{_size(limit)} of memory for {ranks} ranks, which need {_size(need)}", "memory", need, limit)


@check(at="quick", needs=(HOST,), domain="user", fix="docker run --ulimit nproc=-1, or `ulimit -u` for this user")
def user_may_start_processes(now: Snapshot) -> Iterator[Finding]:
    """The user's own limit lets every rank start its threads.

    RLIMIT_NPROC counts all processes and threads of a UID on the host, those in other containers too. It does not hold
    for root with CAP_SYS_RESOURCE.

    Symptom: `Resource temporarily unavailable` from fork or pthread_create, though the container is nearly empty.
    Source: getrlimit(2).
    """
    limit = known(now.host and now.host.process_limit, "the user's limit of processes")
    least = PIDS_A_RANK * (_ranks(now) + 1)
    exempt = now.machine.surroundings.uid == 0
    if limit != UNLIMITED and limit < least and not exempt:
        yield say(f"this user may run {limit} processes and threads", "nproc", least, limit)


@check(at="quick", needs=(HOST,), domain="user", severity="warn", fix="docker run --ulimit stack=67108864")
def stack_is_large_enough(now: Snapshot) -> Iterator[Finding]:
    """Threads get the usual stack of 8 MiB or more.

    The limit is the stack of each new thread; compilers of kernels and deep recursions overrun a small one.

    Symptom: a rare segmentation fault in a thread, mostly while a kernel is compiled.
    Source: getrlimit(2), pthread_create(3).
    """
    size = known(now.host and now.host.stack_bytes, "the limit of the stack")
    if size != UNLIMITED and size < STACK_LEAST:
        yield say(f"threads get {_size(size)} of stack", "stack", STACK_LEAST, size)


@check(
    at="full",
    needs=(HOST, CONTAINER, GPUS),
    domain="user",
    severity="warn",
    fix="docker run --cap-add SYS_NICE, where you bind memory to NUMA nodes; else nothing need be done",
)
def numa_memory_can_be_bound(now: Snapshot) -> Iterator[Finding]:
    """Ranks can bind their memory to the NUMA node of their GPU.

    Docker's seccomp profile refuses set_mempolicy, mbind and get_mempolicy without CAP_SYS_NICE; numactl and
    deepspeed --bind_cores_to_rank call them.

    Symptom: `set_mempolicy: Operation not permitted`, `get_mempolicy: Operation not permitted`.
    Source: the seccomp security profile of Docker's documentation; CapEff and Seccomp in /proc/self/status.
    """
    filtered = known(now.host and now.host.seccomp, "the seccomp mode") == 2
    rights = known(now.machine.surroundings.capabilities, "the capabilities")
    if filtered and "CAP_SYS_NICE" not in rights and len(now.machine.numa) > 1:
        yield say("memory cannot be bound to a NUMA node", "seccomp", "CAP_SYS_NICE", "filter")


def _cpus(text: str | None) -> set[int]:
    """Numbers of a kernel list, `0-3,8`."""
    found: set[int] = set()
    for part in (text or "").split(","):
        low, _, high = part.partition("-")
        if low.isdecimal() and (high or low).isdecimal():
            found.update(range(int(low), int(high or low) + 1))
    return found


@check(
    at="quick",
    needs=(HOST, GPUS),
    domain="user",
    severity="warn",
    fix="docker run without --cpuset-cpus, or with CPUs of each GPU's NUMA node",
)
def cpus_are_near_every_gpu(now: Snapshot) -> Iterator[Finding]:
    """The CPUs of this container lie on the NUMA nodes of its GPUs.

    A rank whose CPUs all belong to the other socket sends every byte between host and GPU through the link between
    the sockets.

    Symptom: some GPUs copy at half the rate of others, on one machine.
    Source: Cpus_allowed_list, /sys/devices/system/node/nodeN/cpulist, numa_node of the GPU.
    """
    allowed = _cpus(known(now.host and now.host.cpuset, "the allowed CPUs"))
    for node in now.machine.numa:
        own = _cpus(node.cpus)
        far = [gpu.index for gpu in now.machine.gpus if gpu.numa == node.index]
        if own and far and not own & allowed:
            named = ", ".join(map(str, far))
            yield say(f"no CPU of NUMA node {node.index}, where GPU {named} is, may be used", f"NUMA node {node.index}")

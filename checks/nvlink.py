"""NVLink, NVSwitch and the fabric manager, judged by the board: what one lacks another must have."""

from checks import check, known, say
from checks.health import each, findings, health_of, name_of, subject_of
from checks.needs import BRIDGES, FABRIC, GPU, GPUS, MANAGER, NVML, NVSWITCH, NVSWITCH_BOARD, SOLD_NVLINKS, SXM
from checks.nvlink_boards import links_of, registers, switches_expected, switches_of
from rig.finding import Finding
from rig.lean import Iterator
from rig.snapshot import Snapshot

ERRORS_MOST = 4  # imbue-ai/cluster-health warns from 5 on
GIVEN = "ask for a machine that passes NVLink on (a partition of the fabric), or expect the speed of PCIe"
START = "on the host: systemctl restart nvidia-fabricmanager, of the driver's own version; wait a minute"


@check(
    at="quick",
    needs=(GPUS, SXM),
    domain="host",
    fix="on the host: restart the fabric manager, reset the GPU (nvidia-smi --gpu-reset); then have the board reseated",
)
def all_nvlinks_are_active(now: Snapshot) -> Iterator[Finding]:
    """Each GPU on an SXM board has all its NVLinks.

    Their number is that of the board: 6 on V100, 12 on A100, 8 on A800 and H800, 18 on H100, H200, H20 and B200. PCIe
    boards are not judged here: those without bridges have none (that is how they are sold), H100 NVL has 12 by design.
    A guest with one GPU of a machine has none either, and a vGPU shows none. A hypervisor may pass several on without
    their links: that is slow, but not broken, and so a warning.

    Symptom: in-node bandwidth at a part of what it should be; Xid 74.
    Source: nvmlDeviceGetNvLinkState; Azure/azurehpc-health-checks#162, NVIDIA/NVSentinel PR#1481.
    """
    for gpu in now.machine.gpus:
        want = links_of(gpu, now)
        if want is not None:
            got = known(gpu.nvlinks, f"the NVLinks of {name_of(gpu)}")
            if got == 0 and now.machine.surroundings.virtual is not None:
                text = f"{name_of(gpu)}: this guest was given none of its {want} NVLinks"
                yield say(text, subject_of(gpu), want, got, GIVEN, outcome="warn", domain="platform")
            elif got < want:
                yield say(f"{name_of(gpu)}: {got} of {want} NVLinks are active", subject_of(gpu), want, got)


@check(
    at="quick",
    needs=(GPU, SOLD_NVLINKS),
    domain="host",
    fix="on the host: restart the fabric manager, reset the GPU; or correct RIG_EXPECT",
)
def nvlinks_are_as_many_as_expected(now: Snapshot) -> Iterator[Finding]:
    """Each GPU has the NVLinks that were sold.

    Where somebody says how many belong here, that counts, whatever the board is.

    Symptom: half of the in-node bandwidth that was paid for.
    Source: nvmlDeviceGetNvLinkState against RIG_EXPECT=nvlinks=N.
    """
    want = now.expected.nvlinks or 0
    for gpu in now.machine.gpus:
        got = known(gpu.nvlinks, f"the NVLinks of {name_of(gpu)}")
        if got < want:
            yield say(f"{name_of(gpu)}: {got} NVLinks are active, {want} were sold", subject_of(gpu), want, got)


@check(
    at="quick",
    needs=(GPUS, BRIDGES),
    domain="host",
    severity="warn",
    fix="have the bridges between the two boards reseated; all of them are needed",
)
def nvlink_bridges_are_whole(now: Snapshot) -> Iterator[Finding]:
    """A pair of PCIe boards that is bridged is bridged wholly.

    Three bridges join two A100 or H100 boards, with 12 links. Fewer active ones mean that a bridge is missing or loose.
    No active link at all means boards without bridges, which is nothing to report.

    Symptom: a third or two thirds of the bandwidth within a pair.
    Source: NVIDIA A100 PCIe and H100 NVL product briefs, NVLink bridges; Azure/azurehpc-health-checks#162.
    """
    for gpu in now.machine.gpus:
        want = links_of(gpu, now, bridged=True)
        if want is not None and 0 < known(gpu.nvlinks, f"the NVLinks of {name_of(gpu)}") < want:
            text = f"{name_of(gpu)}: {gpu.nvlinks} of the {want} NVLinks of a bridged board are active"
            yield say(text, subject_of(gpu), want, gpu.nvlinks)


@check(at="quick", needs=(GPUS, SXM), domain="host", severity="warn", fix="ask the host: a GPU or its link is missing")
def nvlinks_reach_every_gpu(now: Snapshot) -> Iterator[Finding]:
    """On an SXM board each GPU reaches each other one by NVLink.

    Through an NVSwitch all do; boards of four are wired in full. The eight V100 of the older boards are wired as a
    cube, not in full, and are not judged.

    Symptom: `nvidia-smi topo -m` shows SYS between two GPUs; one pair at PCIe speed.
    Source: nvmlDeviceGetNvLinkRemotePciInfo_v2.
    """
    gpus = [gpu for gpu in now.machine.gpus if links_of(gpu, now) is not None and gpu.bus_id]
    for gpu in gpus:
        known(gpu.nvlinks, f"the NVLinks of {name_of(gpu)}")
        lost = [other.bus_id for other in gpus if other is not gpu and other.bus_id not in gpu.nvlink_peers]
        whole = (gpu.nvlinks or 0) >= (links_of(gpu, now) or 0)  # else another check says so
        if lost and whole and gpu.capability != (7, 0):
            yield say(f"{name_of(gpu)} has no NVLink to {', '.join(map(str, lost))}", subject_of(gpu), got=lost)


@check(
    at="quick",
    needs=(GPU, NVML),
    domain="host",
    severity="warn",
    fix="run it again after an hour under load: if the count rises, reset the GPU; then have the board reseated",
)
def nvlink_errors_are_few(now: Snapshot) -> Iterator[Finding]:
    """The NVLinks count few errors.

    CRC errors are repeated and cost time; a link that recovers stops all for a moment. The counts are those since the
    driver was loaded, of all links of a GPU together, so few mean little: what rises under load is a bad link.

    Symptom: collectives of uneven speed; Xid 74.
    Source: nvmlDeviceGetNvLinkErrorCounter (replay, recovery, CRC); imbue-ai/cluster-health.
    """
    yield from findings(
        now,
        "nvlink_errors",
        "the errors of its NVLinks",
        None,
        ERRORS_MOST,
        "{got} NVLink errors since the driver was loaded",
    )


@check(at="quick", needs=(NVML, FABRIC), domain="host", fix=START)
def gpus_have_joined_the_fabric(now: Snapshot) -> Iterator[Finding]:
    """Each GPU behind NVSwitches has been registered with the fabric.

    The fabric manager does that at the host's start, and CUDA does not begin before. A job that starts right after a
    boot may come too early. H100 PCIe and NVL boards have no fabric, and neither V100 nor A100 tell of it.

    Symptom: CUDA error 802, `system not yet initialized`, while nvidia-smi lists all GPUs.
    Source: nvmlDeviceGetGpuFabricInfoV, state; leptonai/gpud PR#1147, PR#1151, NVIDIA/NVSentinel#883.
    """
    for one in each(now, "fabric_state", "its fabric state", registers, lambda state: state != "completed"):
        if isinstance(one, Finding):
            yield one
        elif registers(one[0]) and (one[1] != "not-supported" or switches_of(now)):
            text = f"{name_of(one[0])}: fabric state {one[1]}: the fabric manager has not set it up (CUDA error 802)"
            yield say(text, subject_of(one[0]), "completed", one[1])


@check(at="quick", needs=(NVML, FABRIC), domain="host", fix=START)
def fabric_registration_succeeded(now: Snapshot) -> Iterator[Finding]:
    """The registration with the fabric ended well.

    A state `completed` says only that it ended; whether well is in the status beside it.

    Symptom: all GPUs look healthy, collectives over NVLink fail.
    Source: nvmlDeviceGetGpuFabricInfoV, status; Azure/azhpc-images#506 (`Insufficient Resources` was taken for well).
    """
    for gpu in now.machine.gpus:
        health = health_of(now, gpu)
        if not registers(gpu) or health.fabric_state != "completed":
            continue
        status = known(health.fabric_status, f"how the registration of {name_of(gpu)} ended")
        if status != "success":
            text = f"{name_of(gpu)}: the fabric's registration ended with: {status}"
            yield say(text, subject_of(gpu), "success", status)


@check(
    at="quick",
    needs=(NVML, FABRIC),
    domain="host",
    fix="on the host: check the fabric's partition and the IMEX service (nvidia-imex-ctl -N); ask the operator",
)
def gpus_are_in_one_clique(now: Snapshot) -> Iterator[Finding]:
    """GPUs of an NVLink fabric over several machines are in one clique.

    Only GPUs of one clique reach each other's memory by NVLink. In a fabric over machines (NVL72) a clique of 0 is
    none. In one machine with its own NVSwitches 0 is the usual number.

    Symptom: NCCL uses the network between trays that NVLink joins.
    Source: nvmlDeviceGetGpuFabricInfoV, cliqueId and clusterUuid; NVIDIA multi-node NVLink guide.
    """
    cliques = {}
    for gpu in now.machine.gpus:
        health = health_of(now, gpu)
        if registers(gpu) and health.fabric_state == "completed":
            cliques[subject_of(gpu)] = known(health.fabric_clique, f"the fabric clique of {name_of(gpu)}")
            if health.fabric_cluster and health.fabric_clique == 0:
                yield say(f"{name_of(gpu)} belongs to a fabric over machines, but to no clique", subject_of(gpu), got=0)
    if len(set(cliques.values())) > 1:
        yield say(f"the GPUs are in {len(set(cliques.values()))} cliques of the fabric", "fabric", 1, cliques)


@check(at="quick", needs=(NVML, NVSWITCH), domain="host", fix=START, also=("gpu_init",))
def fabric_manager_runs(now: Snapshot) -> Iterator[Finding]:
    """The fabric manager has set up the NVSwitches.

    Where the GPUs themselves tell of the fabric, other checks ask them. A100 and V100 do not: on a host the process
    nv-fabricmanager must be there. In a container it is not visible; then what counts is that CUDA starts.

    Symptom: CUDA error 802, `system not yet initialized`.
    Source: NVIDIA fabric manager user guide; NVIDIA/NVSentinel#883 (down for 20 days, every check green).
    """
    if any(health_of(now, gpu).fabric_state in ("completed", "in-progress") for gpu in now.machine.gpus):
        return
    runs = now.host.fabric_manager if now.host is not None else None
    if runs is None:
        probe = now.probes.get("gpu_init")
        code = (probe.data.get("driver") or {}).get("code") if probe is not None else None
        runs = {0: True, 802: False}.get(known(code, "whether the fabric manager runs, from inside a container"))
    if not known(runs, "whether the fabric manager runs"):
        yield say("the fabric manager does not run: CUDA error 802 on every GPU", "nv-fabricmanager", True, False)


@check(
    at="quick",
    needs=(NVSWITCH, MANAGER),
    domain="host",
    fix="on the host: install nvidia-fabricmanager of the driver's very version, restart it; pin both together",
)
def fabric_manager_is_of_the_drivers_version(now: Snapshot) -> Iterator[Finding]:
    """Driver and fabric manager have the same version.

    The fabric manager ends at once with a driver of another version, and an unattended upgrade moves one of them. In a
    container it is not visible.

    Symptom: CUDA error 802 after an upgrade of the host.
    Source: NVIDIA fabric manager user guide; oracle-quickstart/oci-hpc and imbue-ai/cluster-health compare them.
    """
    manager = now.host.fabric_manager_version if now.host is not None else None
    driver = known(now.machine.kernel.driver, "the driver's version")
    if known(manager, "the fabric manager's version") != driver:
        yield say(f"the fabric manager is {manager}, the driver {driver}", "nv-fabricmanager", driver, manager)


@check(
    at="quick",
    needs=(NVSWITCH_BOARD,),
    domain="host",
    fix="power cycle the host; if it stays away, the board must be replaced",
)
def every_nvswitch_is_on_the_bus(now: Snapshot) -> Iterator[Finding]:
    """The board's NVSwitches are all on the bus.

    A board of eight A100 has 6, one of eight H100 or H200 has 4. A guest that sees none is given the links all the
    same, and is not judged; one that sees some must see all.

    Symptom: the fabric manager does not start, or NVLinks are missing on all GPUs alike.
    Source: NVIDIA HGX A100 and HGX H100 data sheets; /sys/bus/pci/devices, class 0680.
    """
    got, want = len(switches_of(now)), switches_expected(now) or 0
    if got < want:
        yield say(f"{got} of {want} NVSwitches are on the bus", "nvswitch", want, got)

"""Fixtures of the family kernel: lines of its log, as people posted them."""

from rig.snapshot import Snapshot
from tests.checks.gpu_states import cpu_only, every, said
from tests.checks.twin import Twin, changed

XID = "NVRM: Xid (PCI:{bus}): "
FELL = XID + "79, GPU has fallen off the bus."
ACTION = XID + "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
SETTLED = XID + "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
UNCALLED = "NVRM: The NVIDIA probe routine was not called for 4 device(s)."
SXID = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): "
# A driver that does not tell the recovery action (before 570), so that the log's last word stands.
OLDER = every(recovery_action=None)


def churn() -> Snapshot:
    """What a day of crashing jobs leaves behind on a good machine."""
    codes = ("13, Graphics SM Warp Exception", "31, MMU Fault", "43, Ch 10", "45, Ch 8", "94, Contained error")
    lines = [XID + f"{code} round {part}" for part in range(60) for code in codes]
    return said(*lines, ago_s=7200)


def shared(now: Snapshot) -> Snapshot:
    """A container that was given two of the host's eight GPUs."""
    assert now.host is not None
    gpus = now.machine.gpus[2:4]
    around = now.machine.surroundings._replace(container="docker", gpus_on_bus=8)
    return now._replace(machine=now.machine._replace(gpus=gpus, surroundings=around))


def fatal(check: str, line: str, says: str, fix: str, *reported: str) -> Twin:
    """One fatal line; the twin saw the faults of applications only."""
    return Twin(check, said(XID + line, now=OLDER), churn(), says, fix, "host", reported=reported)


def cpu_only_but_expected() -> Snapshot:
    return changed(cpu_only(), expected__gpus=8)  # type: ignore[no-any-return]


def denied(now: Snapshot) -> Snapshot:
    """A job on a host whose control group was given two of the eight GPUs."""
    given = shared(now)
    return changed(given, machine__surroundings__container=None, machine__gpus_denied=6)  # type: ignore[no-any-return]


TWINS = (
    Twin(
        "kernel_log_can_be_read",
        changed(every(), host__kernel_log=None),
        every(),
        "the kernel's log cannot be read here",
        "--cap-add SYSLOG",
        "user",
        "warn",
    ),
    Twin(  # expected and away: then the log would say most
        "kernel_log_can_be_read",
        changed(cpu_only(), host__kernel_log=None, expected__gpus=8),
        cpu_only_but_expected(),
        "not judged",
        "dmesg_restrict",
        "user",
        "warn",
    ),
    Twin(
        "no_gpu_was_lost",
        said(FELL, now=OLDER),
        shared(said(FELL, now=OLDER)),  # of another tenant
        "fallen off the bus",
        "Reboot the host, power off",
        "host",
    ),
    Twin(
        "no_gpu_was_lost",  # it is not listed any more, and it was promised
        changed(shared(said(FELL, now=OLDER)), expected__gpus=8),
        said(FELL, "Linux version 6.8.0-45-generic (build)", now=OLDER),  # of the boot before
        "fallen off the bus",
        "return the machine",
        "host",
    ),
    Twin(  # of another job on the same host; and of one that is away still another check tells
        "no_gpu_was_lost",
        changed(denied(said(FELL, now=OLDER)), expected__gpus=8),
        denied(said(FELL, now=OLDER)),
        "fallen off the bus",
        "Reboot",
        "host",
    ),
    Twin(
        "no_gpu_was_lost",
        said(FELL, now=OLDER),
        changed(said(FELL, now=OLDER), host__nvml="failed", host__nvml_error="GPU 0: GPU is lost (NVML error 15)"),
        "fallen off the bus",
        "Reboot",
        "host",
    ),
    fatal("no_gpu_was_lost", "151, Key rotation error", "Xid 151", "Reboot"),
    *(
        fatal("no_gpu_needs_a_reset", f"{code}, pid=7, name=python, x", f"Xid {code}", "--gpu-reset")
        for code in (62, 109, 119, 120)
    ),
    *(
        Twin(
            "no_gpu_needs_a_reset",
            changed(said(XID + f"{code}, x", now=OLDER), host__gpus__0__ecc_uncorrected_volatile=1),
            said(XID + f"{code}, x", now=OLDER),  # NVML has counted nothing since: a reset has ended it
            f"Xid {code}",
            "--gpu-reset",
            "host",
        )
        for code in (48, 95, 140)
    ),
    Twin(
        "no_gpu_needs_a_reset",
        said(XID + "119, Timeout after 6s of waiting for RPC response from GPU0 GSP!", now=OLDER),
        said(XID + "119, Timeout after 6s of waiting for RPC response", "nvidia {bus}.0: reset done", now=OLDER),
        "GSP",
        "--gpu-reset",
        "host",
    ),
    *(
        Twin(  # the reset that was advised was made, and the driver asks for nothing more
            "no_gpu_needs_a_reset",
            said(SETTLED, XID + f"{code}, x", now=every(recovery_action="reset")),
            healed,
            f"Xid {code}",
            "--gpu-reset",
            "host",
        )
        for code in (62, 109, 119, 120)
        for healed in (said(XID + f"{code}, x"), said(XID + f"{code}, x", SETTLED, now=OLDER))
    ),
    Twin(
        "no_gpu_needs_a_reset",
        said(XID + "62, 0c1d(31f8) 00000000 00000000", now=OLDER),
        churn(),
        "Xid 62",
        "--gpu-reset",
        "host",
        reported=("NVIDIA/NVSentinel#1710", "NVIDIA/gpu-operator#1065", "NVIDIA/k8s-device-plugin#945"),
    ),
    fatal("no_gpu_failed_to_repair_itself", "64, Row Remapper: failed", "Xid 64", "replaced"),
    Twin(  # what no reset ends stays, whatever the driver asks for
        "no_gpu_failed_to_repair_itself", said(XID + "64, x", SETTLED), churn(), "Xid 64", "does not mend it", "host"
    ),
    fatal("every_gpu_has_its_power_cable", "54, x", "Xid 54", "power cables"),
    fatal("no_nvlink_failed", "74, NVLink: fatal error detected on link 6", "Xid 74", "reset all GPUs"),
    Twin("no_nvlink_failed", said(XID + "74, x", now=OLDER), said(XID + "74, x"), "Xid 74", "reset all GPUs", "host"),
    Twin(
        "no_nvlink_failed",
        said(XID + "149, NETIR_LINK_EVT Fatal XC0 i0 Link 08", now=OLDER),
        said(XID + "149, NETIR_LINK_EVT Nonfatal XC0 i0 Link 08"),
        "unit NETIR",
        "reset all GPUs",
        "host",
    ),
    Twin(
        "no_nvswitch_failed",
        said(SXID + "20034, Fatal, Link 30 LTSSM Fault Up"),
        said(SXID + "28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)"),
        "SXid 20034",
        "nvidia-fabricmanager",
        "host",
    ),
    Twin(
        "kernel_log_asks_for_no_recovery",
        said(ACTION, now=OLDER),
        said(ACTION),  # NVML says none: the node was rebooted, or the GPU reset, since
        "the driver asks for: reboot",
        "Reboot",
        "host",
        reported=("NVIDIA/DCGM#263",),
    ),
    Twin(
        "kernel_log_asks_for_no_recovery",
        said(XID + "154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", now=OLDER),
        said(ACTION, SETTLED, now=OLDER),
        "the driver asks for: drain",
        "start none until",
        "host",
    ),
    Twin(
        "no_job_faulted_just_now",
        said(XID + "31, pid=7, name=python, MMU Fault: FAULT_PDE"),
        churn(),  # hours ago
        "Xid 31",
        "compute-sanitizer",
        "user",
        "warn",
        reported=("NVIDIA/NVSentinel#270", "NVIDIA/NVSentinel#271"),
    ),
    Twin(
        "no_job_faulted_just_now",
        said(XID + "94, pid=7, name=python, Contained: SM (0x1). RST: No"),
        shared(said(XID + "94, pid=7, name=python, Contained: SM (0x1). RST: No")),
        "contained",
        "the GPU is not at fault",
        "user",
        "warn",
        reported=("NVIDIA/gpu-operator#1065", "NVIDIA/k8s-device-plugin#945", "NVIDIA/k8s-device-plugin#268"),
    ),
    Twin("every_xid_is_known", said(XID + "987, x"), churn(), "Xid 987", "catalogue", "host", "warn"),
    Twin(
        "driver_started_every_gpu",
        said("NVRM: GPU {bus}.0: RmInitAdapter failed! (0x26:0x56:1474)"),
        said("NVRM: API mismatch: the client has the version 550.54.15, but this kernel module has 535.129.03"),
        "could not start GPU 0",
        "Reboot the host",
        "host",
    ),
    Twin(  # GPUs that were given to guests
        "driver_started_every_gpu",
        said(UNCALLED),
        changed(said(UNCALLED), machine__kernel__modules=("nvidia", "vfio_pci")),
        "could not start a GPU",
        "power off",
        "host",
    ),
    Twin(
        "no_process_ran_out_of_memory",
        said("Memory cgroup out of memory: Killed process 421 (python3) total-vm:9kB", now=cpu_only()),
        said("Memory cgroup out of memory: Killed process 421 (python3) total-vm:9kB", ago_s=200_000),
        "memory of its container",
        "docker run --memory",
        "user",
        "warn",
    ),
    Twin(
        "no_task_hung",
        said("INFO: task nvidia-smi:77 blocked for more than 120 seconds."),
        cpu_only(),
        "nvidia-smi hung",
        "did not answer",
        "host",
        "warn",
    ),
)

"""The GPUs' memory: is ECC on, what has it found, what did the GPU do about it, and what does the driver ask for."""

from checks import check, say
from checks.health import (
    counts,
    each,
    findings,
    has_hbm,
    health_of,
    name_of,
    remaps,
    retires,
    subject_of,
    unknown,
)
from checks.needs import ECC, NVML, RECOVERY, REMAPPING, RETIREMENT
from rig.finding import Finding
from rig.lean import Iterator
from rig.snapshot import Snapshot
from rig.xid import REMEDIES, RESET

HARMLESS = f"{RESET} (or reboot); no replacement is needed"
REPLACE = REMEDIES["replace"]
ROWS_AT_MOST = 512  # spare rows of a GPU
PAGES_AT_MOST = 61
SRAM_AT_MOST = 4
CORRECTED_AT_MOST = 50_000_000


@check(at="quick", needs=(ECC, NVML), domain="host", fix="On the host: nvidia-smi --ecc-config=1, then reboot")
def ecc_is_on(now: Snapshot) -> Iterator[Finding]:
    """GPUs with HBM check their memory: ECC is on.

    HBM pays nothing for ECC. Without it a flipped bit goes into the weights, and no counter tells. Consumer cards
    have none, and GDDR boards may run without: they are not asked.

    Symptom: a loss that jumps on one rank only, NaN that cannot be repeated.
    Source: NVML, nvmlDeviceGetEccMode; imbue-ai/cluster-health.
    """
    for gpu in now.machine.gpus:
        if has_hbm(gpu) and gpu.ecc is None:
            yield unknown(gpu, "the ECC mode")
        elif has_hbm(gpu) and not gpu.ecc:
            yield say(f"{name_of(gpu)}: ECC is off, so memory errors go unseen", subject_of(gpu), True, False)


@check(at="quick", needs=(ECC, NVML), domain="host", severity="warn", fix="On the host: nvidia-smi --ecc-config=1")
def ecc_stays_on(now: Snapshot) -> Iterator[Finding]:
    """ECC is not set to change at the next reset.

    The mode is changed in two steps: what is asked for now holds after a reset, perhaps in the middle of a job.

    Symptom: ECC is on today and off after the next reboot.
    Source: NVML, the pending mode of nvmlDeviceGetEccMode.
    """
    for one in each(now, "ecc_pending", "the ECC mode after a reset", has_hbm, lambda after: not after):
        if isinstance(one, Finding):
            yield one
        elif one[0].ecc and has_hbm(one[0]):
            yield say(f"{name_of(one[0])}: ECC will be off after the next reset", subject_of(one[0]), True, False)


@check(at="quick", needs=(ECC, NVML), domain="host", fix=REMEDIES["reset"])
def memory_has_no_uncorrected_errors(now: Snapshot) -> Iterator[Finding]:
    """No GPU met an ECC error that it could not correct since its driver was loaded or it was reset.

    What was read then was wrong: the job that read it was ended, or its numbers are.

    Symptom: `CUDA error: uncorrectable ECC error encountered`, Xid 48, 94 or 95.
    Source: NVML, volatile uncorrected errors; facebookresearch/gcm, GoogleCloudPlatform/cluster-health-scanner.
    """
    what = "the count of uncorrected ECC errors"
    text = "{got} uncorrected ECC errors since the last reset"
    yield from findings(now, "ecc_uncorrected_volatile", what, counts, 0, text)


@check(at="quick", needs=(ECC, NVML), domain="host", fix=REPLACE)
def on_chip_memory_has_no_uncorrected_errors(now: Snapshot) -> Iterator[Finding]:
    """The GPU's on-chip memory (SRAM) had no uncorrected error in its life.

    SRAM has no spare rows: more than four in a life are reason enough for a replacement.

    Symptom: Xid 48 or 95 that comes back after each reset.
    Source: NVML; Azure/azurehpc-health-checks; stas00/ml-engineering (more than 4: RMA).
    """
    what = "the count of uncorrected SRAM errors"
    for one in each(now, "sram_uncorrected", what, None, lambda count: count > 0):
        if isinstance(one, Finding):
            yield one
            continue
        gpu, count = one
        mild = "" if count > SRAM_AT_MOST else "warn"
        watch = "Watch it: more than 4 are reason enough for a replacement" if mild else ""
        text = f"{name_of(gpu)}: {count} uncorrected errors of its SRAM in its life"
        yield say(text, subject_of(gpu), 0, count, fix=watch, outcome=mild)


@check(at="quick", needs=(ECC, NVML), domain="host", fix=REPLACE)
def on_chip_memory_is_within_its_threshold(now: Snapshot) -> Iterator[Finding]:
    """The GPU itself does not say that its on-chip memory has had too many errors.

    Symptom: `SRAM Threshold Exceeded: Yes` in nvidia-smi -q.
    Source: NVML, nvmlDeviceGetSramEccErrorStatus (bThresholdExceeded); NVIDIA/DCGM.
    """
    text = "its SRAM has had more errors than the maker's threshold"
    yield from findings(now, "sram_threshold_exceeded", "the SRAM threshold", None, False, text)


@check(at="quick", needs=(REMAPPING, NVML), domain="host", fix=HARMLESS)
def no_row_remapping_is_pending(now: Snapshot) -> Iterator[Finding]:
    """No row of a GPU's memory waits for a reset to be replaced by a spare one.

    The next job may read the bad row and crash. A reset or reboot is all it needs: such a GPU is not broken.

    Symptom: Xid 63, `Row Remapper: New row marked for remapping, reset gpu to activate`.
    Source: NVML, nvmlDeviceGetRemappedRows (isPending); NVIDIA, GPU Memory Error Management.
    """
    text = "a bad row of its memory waits for a reset to be replaced by a spare one"
    yield from findings(now, "remap_pending", "whether a row remapping is pending", remaps, False, text)


@check(at="quick", needs=(REMAPPING, NVML), domain="host", fix=REPLACE)
def row_remapping_has_not_failed(now: Snapshot) -> Iterator[Finding]:
    """No GPU has run out of spare rows for its memory.

    Symptom: `Remapping Failure Occurred: Yes` in nvidia-smi -q, Xid 64.
    Source: NVML, nvmlDeviceGetRemappedRows (failureOccurred); NVIDIA, GPU Memory Error Management (RMA policy).
    """
    text = "a bad row of its memory could not be replaced: no spare rows are left"
    yield from findings(now, "remap_failed", "whether a row remapping failed", remaps, False, text)


@check(at="quick", needs=(REMAPPING, NVML), domain="host", fix=REPLACE)
def remapped_rows_are_few(now: Snapshot) -> Iterator[Finding]:
    """At most 512 rows of a GPU's memory were replaced after uncorrected errors.

    Symptom: Xid 63 and 48 again and again, each time with a reset.
    Source: NVML, nvmlDeviceGetRemappedRows (uncRows); oracle-quickstart/oci-hpc (512). Others read the wrong column.
    """
    text = f"{{got}} rows of its memory were replaced after uncorrected errors, more than {ROWS_AT_MOST}"
    yield from findings(now, "remapped_uncorrectable", "the count of remapped rows", remaps, ROWS_AT_MOST, text)


@check(at="quick", needs=(RETIREMENT, NVML), domain="host", fix=HARMLESS)
def no_page_retirement_is_pending(now: Snapshot) -> Iterator[Finding]:
    """No page of a GPU's memory (Volta and older) waits for a reset to be retired.

    Symptom: Xid 63, `Dynamic Page Retirement: New retired page, reload the driver to activate`.
    Source: NVML, nvmlDeviceGetRetiredPagesPendingStatus; NVIDIA, Dynamic Page Retirement.
    """
    text = "a bad page of its memory waits for a reset to be retired"
    yield from findings(now, "retired_pending", "whether a page retirement is pending", retires, False, text)


@check(at="quick", needs=(RETIREMENT, NVML), domain="host", severity="warn", fix=REPLACE)
def retired_pages_are_few(now: Snapshot) -> Iterator[Finding]:
    """Fewer than 62 pages of a GPU's memory (Volta and older) were retired; the list holds 64.

    Symptom: Xid 64, then errors that no reset ends.
    Source: NVML, nvmlDeviceGetRetiredPages; Azure/azurehpc-health-checks (62).
    """
    text = "{got} pages of its memory were retired, and its list holds 64"
    yield from findings(now, "retired_pages", "the count of retired pages", retires, PAGES_AT_MOST, text)


@check(at="quick", needs=(ECC, NVML), domain="host", severity="warn", fix="Watch it: dcgmi diag -r 3 when it is free")
def corrected_errors_are_few(now: Snapshot) -> Iterator[Finding]:
    """No GPU corrected more than 50 million errors since its driver was loaded.

    Corrected errors harm nothing; that many in one run of the driver tell of wear. Never more than a warning.

    Symptom: none yet.
    Source: NVML, volatile corrected errors; facebookresearch/gcm (5e7).
    """
    what = "the count of corrected ECC errors"
    text = "{got} corrected ECC errors since the driver was loaded"
    yield from findings(now, "ecc_corrected_volatile", what, counts, CORRECTED_AT_MOST, text)


@check(at="quick", needs=(RECOVERY, NVML), domain="host", fix="Do what nvidia-smi -q calls GPU Recovery Action")
def driver_asks_for_no_recovery(now: Snapshot) -> Iterator[Finding]:
    """The driver does not ask for a reset or a reboot.

    After a fault the driver itself says what a GPU needs before it can be trusted again. Tools that ask only for health
    call such a GPU healthy.

    Symptom: `GPU Recovery Action: Reset` in nvidia-smi -q; new jobs fail at once.
    Source: NVML, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION; NVIDIA/DCGM#263.
    """
    for gpu in now.machine.gpus:
        action = health_of(now, gpu).recovery_action
        if action is None:
            yield unknown(gpu, "the recovery action")
        elif action != "none":
            text = f"{name_of(gpu)}: the driver asks for: {action}"
            yield say(text, subject_of(gpu), "none", action, fix=REMEDIES.get(action, ""))

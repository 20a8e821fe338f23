"""Clocks, power and heat of the GPUs: what holds them back, at rest and under the load of a probe."""

from checks import Need, check, say
from checks.floors import PEERS
from checks.health import anyone, each, findings, health_of, name_of, subject_of, told, unknown, words
from checks.measured import Row, gpu_rows
from checks.needs import GPU, GPUS, NVML, TORCH
from rig.finding import Finding
from rig.lean import Iterator
from rig.machine import Gpu
from rig.snapshot import Snapshot

# Bits of nvmlClocksEventReasons (nvml.h). Idle, application clocks, a power cap and sync boost are no fault.
POWER_CAP, SLOWDOWN, SOFT_HEAT, HEAT, BRAKE = 0x4, 0x8, 0x20, 0x40, 0x80
COOL = "On the host: clean and check fans, air flow and inlet temperature; return the machine if it stays hot"
SUPPLY = "Have power supplies, their cables and the power budget of the rack checked, or return the machine"
HOT_AT_REST_C = 85
MARGIN_C = 5
CLOCK_SPREAD = 0.10
CLOCK_SHARE = 0.70
# What a virtual GPU's driver does not tell of any GPU; of some GPUs but not of others, it is unknown.
REASONS = Need(
    "clock-reasons", "the driver does not tell what holds clocks back", lambda now: told(now, "clock_reasons")
)
POWER = Need("power-limits", "the driver does not tell power limits", lambda now: told(now, "power_limit_mw"))
HEATS = Need("temperatures", "the driver does not tell temperatures", lambda now: told(now, "temperature_c"))


def _held(now: Snapshot, bits: int, without: int, text: str, **more: str) -> Iterator[Finding]:
    """A finding for each GPU that names one of these reasons for low clocks, and none of `without`."""

    def wrong(reasons: int) -> bool:
        return bool(reasons & bits) and not reasons & without

    for one in each(now, "clock_reasons", "what holds its clocks back", anyone, wrong):
        if isinstance(one, Finding):
            yield one
        else:
            gpu, reasons = one
            yield say(f"{name_of(gpu)}: {text}", subject_of(gpu), 0, f"0x{reasons:x}", **more)


@check(at="quick", needs=(NVML, REASONS), domain="host", fix=COOL + "; else " + SUPPLY)
def hardware_does_not_slow_the_clocks(now: Snapshot) -> Iterator[Finding]:
    """No GPU's hardware halves its clocks for a reason that it does not name.

    A power cap set by software is normal under load, and so are low clocks of a GPU without work.

    Symptom: one rank takes twice as long for each step.
    Source: nvml.h, nvmlClocksEventReasonHwSlowdown; leptonai/gpud.
    """
    yield from _held(now, SLOWDOWN, HEAT | BRAKE, "its hardware slows its clocks down (HW slowdown)")


@check(at="quick", needs=(NVML, REASONS), domain="host", fix=COOL)
def heat_does_not_slow_the_clocks(now: Snapshot) -> Iterator[Finding]:
    """No GPU slows down for heat when nothing runs.

    The hardware's own brake is a failure, the driver's earlier one a warning.

    Symptom: `HW Thermal Slowdown: Active`, fast for a minute and slow from then on.
    Source: nvml.h, nvmlClocksEventReasonHwThermalSlowdown and SwThermalSlowdown.
    """
    yield from _held(now, HEAT, 0, "its hardware slows its clocks down for heat (HW thermal slowdown)")
    softly = "the driver slows its clocks down for heat (SW thermal slowdown)"
    for one in _held(now, SOFT_HEAT, HEAT, softly, outcome="warn"):
        if one.outcome == "warn":
            yield one


@check(at="quick", needs=(NVML, REASONS), domain="host", fix=SUPPLY)
def power_supply_does_not_brake(now: Snapshot) -> Iterator[Finding]:
    """The server's power supply does not order any GPU to slow down.

    The brake is a wire from the power supply: it is pulled when a supply failed or the rack has not enough.

    Symptom: `HW Power Brake Slowdown: Active`, all GPUs of a node at a third of their speed.
    Source: nvml.h, nvmlClocksEventReasonHwPowerBrakeSlowdown.
    """
    yield from _held(now, BRAKE, 0, "the server's power supply brakes it (HW power brake)")


ALONE, TOGETHER = "alone", "with all GPUs at work"


def _loaded(now: Snapshot) -> Iterator[tuple[Gpu, str, Row]]:
    """(GPU, ALONE or TOGETHER, what the probe read) under load; one GPU alone is all together."""
    gpus = {gpu.bus_id: gpu for gpu in now.machine.gpus}
    alone = gpu_rows(now, "gpu_matmul")
    together = gpu_rows(now, "gpu_matmul", "together") if len(alone) > 1 else ()
    for how, rows in ((ALONE, alone), (TOGETHER, together)):
        yield from ((gpus[row["bus_id"]], how, row) for row in rows)


def _loaded_reasons(now: Snapshot, bits: int, text: str) -> Iterator[Finding]:
    for gpu, how, row in _loaded(now):
        reasons = row.get("reasons")
        if reasons is None:
            yield unknown(gpu, f"what holds its clocks back under load ({how})")
        elif reasons & bits:
            degrees = row.get("temperature_c")
            heat = f" at {degrees} C" if degrees is not None else ""
            yield say(f"{name_of(gpu)}: under load, {how}: {text}{heat}", subject_of(gpu), 0, f"0x{reasons:x}")


@check(at="full", needs=(GPU, TORCH, REASONS), domain="host", fix=COOL, probe="gpu_matmul")
def gpus_stay_cool_under_load(now: Snapshot) -> Iterator[Finding]:
    """No GPU slows down for heat while it multiplies matrices.

    Symptom: fast for a minute, then slow; one rank 20 to 50 % behind the others.
    Source: nvml.h, nvmlClocksEventReasons; stas00/ml-engineering.
    """
    yield from _loaded_reasons(now, HEAT | SOFT_HEAT, "heat slows its clocks down")


@check(at="full", needs=(GPU, TORCH, REASONS), domain="host", fix=SUPPLY, probe="gpu_matmul")
def gpus_have_power_under_load(now: Snapshot) -> Iterator[Finding]:
    """No GPU is braked by the power supply or its own hardware while it multiplies matrices.

    Reaching the GPU's own power limit (SW power cap) is what a good program does, and no fault.

    Symptom: all GPUs slow as soon as all of them work.
    Source: nvml.h, nvmlClocksEventReasonHwPowerBrakeSlowdown, nvmlClocksEventReasonHwSlowdown.
    """
    for gpu, how, row in _loaded(now):
        reasons = row.get("reasons")
        if reasons is None:
            yield unknown(gpu, f"what holds its clocks back under load ({how})")
        elif reasons & BRAKE or (reasons & SLOWDOWN and not reasons & HEAT):
            what = "the power supply brakes it" if reasons & BRAKE else "its hardware slows its clocks down"
            yield say(f"{name_of(gpu)}: under load, {how}: {what}", subject_of(gpu), 0, f"0x{reasons:x}")


@check(at="full", needs=(GPUS, PEERS, TORCH), domain="host", severity="warn", fix=COOL, probe="gpu_matmul")
def gpus_run_at_one_clock(now: Snapshot) -> Iterator[Finding]:
    """Under load no GPU's clock is more than 10 % below the median of its like.

    Symptom: every step waits for the same rank.
    Source: microsoft/superbenchmark (5 % of rates); NVML, the SM clock.
    """
    rows = list(_loaded(now))
    for how in (ALONE, TOGETHER):
        clocks = [(gpu, row.get("sm_clock_mhz")) for gpu, mine, row in rows if mine == how]
        for model in {gpu.model for gpu, _ in clocks}:
            like = [(gpu, mhz) for gpu, mhz in clocks if gpu.model == model]
            yield from _slow_of(like, how)


def _slow_of(like: list[tuple[Gpu, int | None]], how: str) -> Iterator[Finding]:
    clocks = sorted(mhz for _, mhz in like if mhz is not None)
    for gpu, mhz in like:
        if mhz is None:
            yield unknown(gpu, f"its clock under load ({how})")
        elif mhz < (1 - CLOCK_SPREAD) * (median := clocks[len(clocks) // 2]):
            text = f"{name_of(gpu)}: {mhz} MHz under load ({how}), its neighbours {median} MHz"
            yield say(text, subject_of(gpu), median, mhz)


@check(
    at="full",
    needs=(GPU, NVML, TORCH, REASONS),
    domain="host",
    severity="warn",
    fix="On the host: nvidia-smi --reset-gpu-clocks --reset-applications-clocks",
    probe="gpu_matmul",
)
def clocks_are_not_locked_low(now: Snapshot) -> Iterator[Finding]:
    """Under load a GPU runs at 70 % of its highest clock at least, or says that its power limit holds it back.

    Some tools lock the clocks for a measurement, and are killed before they unlock them.

    Symptom: all rates low on a cool machine, nothing in any log.
    Source: nvidia-smi(1), --lock-gpu-clocks; Azure/azurehpc-health-checks leaves such a lock behind when it is killed.
    """
    for gpu, how, row in _loaded(now):
        mhz, most, reasons = row.get("sm_clock_mhz"), health_of(now, gpu).sm_clock_max_mhz, row.get("reasons")
        if mhz is None or most is None or reasons is None:
            yield unknown(gpu, f"its clock under load ({how})")
        elif mhz < CLOCK_SHARE * most and not reasons & (POWER_CAP | SLOWDOWN | SOFT_HEAT | HEAT | BRAKE):
            text = f"{name_of(gpu)}: {mhz} of {most} MHz under load ({how}), and neither power nor heat is the reason"
            yield say(text, subject_of(gpu), most, mhz)


@check(
    at="quick",
    needs=(NVML,),
    domain="host",
    severity="warn",
    fix="On the host: nvidia-smi --reset-applications-clocks",
)
def application_clocks_are_the_default(now: Snapshot) -> Iterator[Finding]:
    """Nobody set the GPUs' application clocks lower than the maker did. Kinds without such clocks are not asked.

    Symptom: every rate some percent low on all GPUs alike.
    Source: NVML, nvmlDeviceGetApplicationsClock; facebookresearch/gcm.
    """
    for one in each(now, "app_clock_mhz", "the application clock", None, bool):
        if isinstance(one, Finding):
            continue
        gpu, mhz = one
        default = health_of(now, gpu).app_clock_default_mhz
        if default is None:
            yield unknown(gpu, "the maker's application clock")
        elif mhz < default:
            text = f"{name_of(gpu)}: its application clock is {mhz} MHz, the maker's is {default} MHz"
            yield say(text, subject_of(gpu), default, mhz)


@check(
    at="quick",
    needs=(NVML, POWER),
    domain="host",
    severity="warn",
    fix="Ask the host for the full power limit (nvidia-smi --power-limit=W), or for another price",
)
def power_limit_is_the_default(now: Snapshot) -> Iterator[Finding]:
    """Nobody set the GPUs' power limit lower than the maker did.

    Some hosts cap 4090 and A100 quietly: they are sold by name and run 15 % slower.

    Symptom: slower than the same card elsewhere, at low temperatures.
    Source: NVML, nvmlDeviceGetEnforcedPowerLimit and nvmlDeviceGetPowerManagementDefaultLimit.
    """
    for gpu in now.machine.gpus:
        limit, default = health_of(now, gpu).power_limit_mw, health_of(now, gpu).power_default_mw
        if limit is None or default is None:
            yield unknown(gpu, "the power limit")
        elif limit < default:
            text = f"{name_of(gpu)}: its power limit is {limit // 1000} W, the maker's is {default // 1000} W"
            yield say(text, subject_of(gpu), default, limit)


@check(
    at="quick",
    needs=(GPUS, NVML, POWER),
    domain="host",
    severity="warn",
    fix="On the host: nvidia-smi --power-limit=W",
)
def gpus_have_one_power_limit(now: Snapshot) -> Iterator[Finding]:
    """GPUs of one kind have one power limit.

    All ranks wait for the slowest, so one capped GPU slows all of them.

    Symptom: one rank a little behind in every step.
    Source: NVML, nvmlDeviceGetEnforcedPowerLimit.
    """
    limits: dict[tuple[str, ...], dict[int, Gpu]] = {}
    for gpu in now.machine.gpus:
        limit = health_of(now, gpu).power_limit_mw
        if limit is None:
            yield unknown(gpu, "the power limit")
        else:
            limits.setdefault(tuple(sorted(words(gpu.model))), {}).setdefault(limit, gpu)
    for found in limits.values():
        if len(found) > 1:
            low, high = min(found), max(found)
            text = f"{name_of(found[low])} may use {low // 1000} W, others of its kind {high // 1000} W"
            yield say(text, subject_of(found[low]), high, low)


@check(at="quick", needs=(NVML, HEATS), domain="host", severity="warn", fix=COOL)
def gpus_are_cool_at_rest(now: Snapshot) -> Iterator[Finding]:
    """No GPU is above 85 C, or within 5 C of the temperature at which it slows down, when nothing runs.

    Symptom: clocks that fall as soon as a job starts.
    Source: NVML, nvmlDeviceGetTemperatureThreshold; NVIDIA/ai-cloud-validation (85 C).
    """
    hot = "it is {got} C warm when nothing runs"
    yield from findings(now, "temperature_c", "its temperature", anyone, HOT_AT_REST_C, hot)
    for gpu in now.machine.gpus:
        degrees, slowdown = health_of(now, gpu).temperature_c, health_of(now, gpu).slowdown_c
        if degrees is None or slowdown is None or degrees > HOT_AT_REST_C:
            continue
        if degrees > slowdown - MARGIN_C:
            text = f"{name_of(gpu)}: it is {degrees} C warm when nothing runs, and slows down at {slowdown} C"
            yield say(text, subject_of(gpu), slowdown - MARGIN_C, degrees)

"""Fixtures of the family clocks."""

from tests.checks.gpu_states import consumer, every, first, loaded, well
from tests.checks.twin import Twin, changed

GOOD = well()
# A GPU at its power limit under load, and one without work: neither is a fault.
CAPPED, IDLE = first(clock_reasons=0x4), first(clock_reasons=0x1)

TWINS = (
    Twin("hardware_does_not_slow_the_clocks", first(clock_reasons=0x8), CAPPED, "HW slowdown", "fans", "host"),
    Twin(
        "hardware_does_not_slow_the_clocks", first(clock_reasons=None), consumer(), "not known", "", "host", "unknown"
    ),
    Twin("heat_does_not_slow_the_clocks", first(clock_reasons=0x48), IDLE, "HW thermal slowdown", "fans", "host"),
    Twin("heat_does_not_slow_the_clocks", first(clock_reasons=0x20), IDLE, "SW thermal", "fans", "host", "warn"),
    Twin("power_supply_does_not_brake", first(clock_reasons=0x88), CAPPED, "power brake", "power supplies", "host"),
    Twin("gpus_stay_cool_under_load", loaded(reasons=0x40, temperature_c=91), GOOD, "at 91 C", "fans", "host"),
    Twin("gpus_stay_cool_under_load", loaded("together", 7, reasons=0x20), GOOD, "all GPUs at work", "fans", "host"),
    Twin("gpus_stay_cool_under_load", loaded(reasons=None), GOOD, "is not known", "", "host", "unknown"),
    Twin("gpus_have_power_under_load", loaded("together", reasons=0x84), GOOD, "brakes it", "power supplies", "host"),
    Twin("gpus_have_power_under_load", loaded(reasons=0x8), loaded(reasons=0x4), "hardware slows", "cables", "host"),
    Twin("gpus_run_at_one_clock", loaded(place=5, sm_clock_mhz=1500), GOOD, "1500 MHz", "fans", "host", "warn"),
    Twin("gpus_run_at_one_clock", loaded(sm_clock_mhz=1529), loaded(sm_clock_mhz=1530), "1529", "", "host", "warn"),
    Twin(
        "clocks_are_not_locked_low",
        loaded(sm_clock_mhz=1155, reasons=0x2),
        loaded(sm_clock_mhz=1155, reasons=0x4),  # at its power limit
        "1155 of 1980 MHz",
        "--reset-gpu-clocks",
        "host",
        "warn",
    ),
    Twin(
        "application_clocks_are_the_default",
        every(app_clock_mhz=1155),
        consumer(),  # has none
        "1155 MHz",
        "--reset-applications-clocks",
        "host",
        "warn",
    ),
    Twin(
        "power_limit_is_the_default",
        every(consumer(), power_limit_mw=300_000),
        consumer(),
        "300 W, the maker's is 450 W",
        "full power limit",
        "host",
        "warn",
    ),
    Twin("gpus_have_one_power_limit", first(power_limit_mw=500_000), GOOD, "500 W", "--power-limit", "host", "warn"),
    Twin(
        "gpus_have_one_power_limit",
        first(power_limit_mw=500_000),
        changed(first(power_limit_mw=500_000), machine__gpus__0__model="NVIDIA H100 PCIe"),
        "500 W",
        "--power-limit",
        "host",
        "warn",
    ),
    Twin("gpus_are_cool_at_rest", first(temperature_c=88), GOOD, "88 C", "fans", "host", "warn"),
    Twin("gpus_are_cool_at_rest", first(temperature_c=84), first(temperature_c=82), "87 C", "fans", "host", "warn"),
)

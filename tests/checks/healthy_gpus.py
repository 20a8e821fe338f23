"""What is healthy about the GPUs of a snapshot: NVML's answers by kind, the driver's files and programs around them."""

from rig.host import GpuHealth
from rig.machine import Gpu
from rig.snapshot import Snapshot

GIB = 1 << 30

# What every kind says that is well.
WELL = GpuHealth(
    "",
    clock_reasons=1,  # nvmlClocksEventReasonGpuIdle
    temperature_c=34,
    pcie_width_max=16,
    pcie_replays=0,
    compute_mode="default",
    memory_used_bytes=0,
    processes=(),
    nvlink_errors=0,
)
# What boards with HBM add.
HBM = WELL._replace(
    ecc_pending=True,
    ecc_uncorrected_volatile=0,
    ecc_corrected_volatile=0,
    sram_uncorrected=0,
    sram_threshold_exceeded=False,
    remapped_uncorrectable=0,
    remap_pending=False,
    remap_failed=False,
    inforom_valid=True,
    recovery_action="none",
)
H100_SXM = HBM._replace(
    vbios="96.00.74.00.01",
    sm_clock_mhz=345,
    sm_clock_max_mhz=1980,
    app_clock_mhz=1980,
    app_clock_default_mhz=1980,
    power_limit_mw=700_000,
    power_default_mw=700_000,
    slowdown_c=87,
    pcie_gen_max=5,
    bar1_bytes=128 * GIB,
    fabric_state="completed",
    fabric_status="success",
    fabric_clique=0,
    fabric_cluster=False,
)
A100_SXM = HBM._replace(
    vbios="92.00.45.00.03",
    sm_clock_mhz=210,
    sm_clock_max_mhz=1410,
    app_clock_mhz=1095,
    app_clock_default_mhz=1095,
    power_limit_mw=400_000,
    power_default_mw=400_000,
    slowdown_c=92,
    pcie_gen_max=4,
    bar1_bytes=64 * GIB,
)
# A consumer card: no ECC, no row remapping, no application clocks, no NVLink, no fabric.
RTX_4090 = WELL._replace(
    vbios="95.02.3C.00.8C",
    sm_clock_mhz=210,
    sm_clock_max_mhz=3105,
    power_limit_mw=450_000,
    power_default_mw=450_000,
    slowdown_c=95,
    pcie_gen_max=4,
    bar1_bytes=32 * GIB,
    nvlink_errors=None,
)
# Before Ampere pages are retired; GDDR with ECC.
T4 = WELL._replace(
    vbios="90.04.96.00.01",
    ecc_pending=True,
    ecc_uncorrected_volatile=0,
    ecc_corrected_volatile=0,
    retired_pages=0,
    retired_pending=False,
    inforom_valid=True,
    sm_clock_mhz=300,
    sm_clock_max_mhz=1590,
    app_clock_mhz=585,
    app_clock_default_mhz=585,
    power_limit_mw=70_000,
    power_default_mw=70_000,
    slowdown_c=93,
    pcie_gen_max=3,
    bar1_bytes=GIB // 4,
    nvlink_errors=None,
)
# A share of a board: its hypervisor keeps the rest to itself.
VGPU = GpuHealth("", vbios="00.00.00.00.00", compute_mode="default", memory_used_bytes=0, processes=())
KINDS = (("GRID", VGPU), ("T4", T4), ("H100", H100_SXM), ("A100", A100_SXM), ("RTX 4090", RTX_4090))
MODULES = ("nvidia", "nvidia_modeset", "nvidia_uvm")


def healthy_gpu(gpu: Gpu, driver: str | None) -> GpuHealth:
    """What NVML tells about a GPU of its kind that is well."""
    kind = next(health for word, health in KINDS if word in (gpu.model or ""))
    return kind._replace(bus_id=gpu.bus_id or "", uuid=gpu.uuid, gsp_firmware=driver)


def with_healthy_gpus(now: Snapshot) -> Snapshot:
    """ECC is on where there is HBM; the container has the driver's libraries and nodes; nothing is stuck."""
    gpus, driver, host = now.machine.gpus, now.machine.kernel.driver, now.host
    if not gpus or host is None:
        return now
    switches = any(gpu.nvswitch for gpu in gpus)
    library = f"/usr/lib/x86_64-linux-gnu/libcuda.so.{driver}"
    host = host._replace(
        gpus=tuple(healthy_gpu(gpu, driver) for gpu in gpus),
        nvml="ok",
        modules=MODULES,
        driver_libraries=(library, f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{driver}"),
        fabric_manager=True if switches else None,
        fabric_manager_version=driver if switches else None,
        opens=tuple((name, True) for name in now.machine.surroundings.nvidia_nodes or ()),
        stuck=host.stuck or (),
        off_bus=(),
    )
    with_ecc = tuple(gpu._replace(ecc=None if "RTX" in (gpu.model or "") else True) for gpu in gpus)
    return now._replace(host=host, machine=now.machine._replace(gpus=with_ecc))

"""Fixtures of the family gpu_state."""

from tests.checks.snapshots import a100, h100, no_gpu, roce, rtx4090
from tests.checks.twin import Twin, changed

HOT = {"host__gpus__0__temperature_c": 79, "host__gpus__0__sm_clock_mhz": 1980, "host__gpus__0__clock_reasons": 4}

GONE = "GPU 3: GPU is lost (NVML error 15)"
BAD = "GPU-00000000-0000-4000-8000-000000000003"
CUT = {"machine__gpus__1__mig": True}

TWINS = (
    Twin(
        "no_gpu_fell_off_the_bus",
        changed(a100(), host__off_bus=("0000:47:00.0",)),
        a100(),
        says="GPU 2 (0000:47:00.0) fell off the bus",
        fix="power cycle",
        domain="host",
    ),
    Twin(
        "no_gpu_fell_off_the_bus",
        changed(a100(), host__off_bus=None, machine__nvml="failed", machine__nvml_error=GONE),
        changed(a100(), machine__nvml="failed", machine__nvml_error="Unknown Error (NVML error 999)"),
        says="a GPU is lost: GPU 3",
        fix="replace",
        domain="host",
    ),
    Twin(
        "gpus_are_of_one_kind",
        changed(rtx4090(), machine__gpus__2__model="NVIDIA GeForce RTX 3090"),
        rtx4090(),
        says="is NVIDIA GeForce RTX 3090, the others are NVIDIA GeForce RTX 4090",
        fix="CUDA_VISIBLE_DEVICES",
        domain="platform",
        outcome="warn",
    ),
    Twin(  # retired pages take a little
        "gpus_are_of_one_kind",
        changed(a100(), machine__gpus__2__memory_bytes=80 << 30),
        changed(a100(), machine__gpus__2__memory_bytes=(40 << 30) - (256 << 20)),
        says="43 GB of memory, others 86 GB",
        fix="one kind",
        domain="platform",
        outcome="warn",
    ),
    Twin(
        "gpus_are_not_cut_by_mig",
        changed(a100(), machine__gpus__1__mig=True),
        changed(a100(), machine__gpus__1__mig=True, environ={"CUDA_VISIBLE_DEVICES": "MIG-5a1e"}),
        says="MIG is on, and no slice was asked for",
        fix="-mig 0",
        domain="host",
    ),
    *(
        Twin(  # a rented slice: to whom the others belong is not known here
            "gpus_are_not_cut_by_mig",
            changed(roce(), **CUT, environ={"NVIDIA_VISIBLE_DEVICES": whole}),
            changed(roce(), **CUT, environ={"NVIDIA_VISIBLE_DEVICES": slices}),
            says="MIG is on",
            fix="name one slice",
            domain="user",
        )
        for whole, slices in (
            ("all", "0:0"),
            ("0,1", "MIG-5a1e"),
            ("", "void"),
            ("GPU-00000000", "none"),
            ("all", "/var/run/nvidia-container-devices"),
            ("1", "0,1:2"),
        )
    ),
    Twin(
        "compute_mode_is_default",
        changed(h100(), host__gpus__4__compute_mode="prohibited"),
        h100(),
        says="CUDA error 46",
        fix="nvidia-smi -c DEFAULT",
        domain="host",
    ),
    Twin(
        "compute_mode_is_default",
        changed(h100(), host__gpus__4__compute_mode="exclusive"),
        h100(),
        says="one process at a time",
        fix="nvidia-smi -c DEFAULT",
        domain="host",
        outcome="warn",
    ),
    Twin(  # right after a burn: hot, at full clock, and free
        "gpus_are_idle",
        changed(h100(), host__gpus__0__processes=((4711, 28_500_000_000), (4712, 0))),
        changed(h100(), **HOT, host__gpus__0__memory_used_bytes=600 << 20),
        says="in use by pid 4711 (28.5 GB), pid 4712",
        fix="end the processes",
        domain="user",
        outcome="warn",
        reported=("NVIDIA/DCGM#272",),
    ),
    Twin(
        "gpus_are_idle",
        changed(roce(), host__gpus__7__memory_used_bytes=40_000_000_000),
        roce(),
        says="40.0 GB are in use by processes that are not visible here",
        fix="ask the host",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "inforom_is_valid",
        changed(a100(), host__gpus__6__inforom_valid=False),
        rtx4090(),  # a consumer card cannot be asked
        says="the infoROM is corrupted",
        fix="replaced",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "no_gpu_is_known_to_be_bad",
        changed(a100(), environ={"RIG_BAD_GPUS": f"GPU-11111111, {BAD}"}),
        changed(a100(), environ={"RIG_BAD_GPUS": "GPU-11111111,,gpu-2222"}),
        says="GPU 2 (0000:47:00.0) failed before",
        fix="return the machine",
        domain="platform",
    ),
    *(
        Twin(  # however the words are parted
            "no_gpu_is_known_to_be_bad",
            changed(a100(), environ={"RIG_BAD_GPUS": f"GPU-11111111-0000-4000-8000-000000000003{between}{BAD}"}),
            changed(a100(), environ={"RIG_BAD_GPUS": f"GPU-11111111-0000-4000-8000-000000000003{between}"}),
            says="GPU 2 (0000:47:00.0) failed before",
            fix="return the machine",
            domain="platform",
        )
        for between in (" ", "\n", "\t", " , ", "\r\n", ",,")
    ),
    Twin(  # a list that names none cannot clear any
        "no_gpu_is_known_to_be_bad",
        changed(a100(), environ={"RIG_BAD_GPUS": "0000:47:00.0"}),
        changed(a100(), environ={"RIG_BAD_GPUS": "gpu-11111111"}),
        says="no word of RIG_BAD_GPUS names a GPU",
        fix="correct RIG_BAD_GPUS",
        domain="user",
        outcome="unknown",
    ),
    *(
        Twin(  # a word that names no GPU is no list of bad ones
            "list_of_bad_gpus_holds_uuids",
            changed(now, environ={"RIG_BAD_GPUS": f"{BAD},{word}"}),
            changed(now, environ={"RIG_BAD_GPUS": f" {BAD}\n,,{BAD.upper()} "}),
            says=f"RIG_BAD_GPUS: {word} is no UUID",
            fix="correct RIG_BAD_GPUS",
            domain="user",
            outcome="warn",
        )
        for now in (a100(), no_gpu())  # the list is wrong wherever it is read
        for word in ("GPU-", "GPU-11111111", BAD[4:], BAD[:-1], f"{BAD}0", BAD.replace("-8", "-x"), "0000:47:00.0")
    ),
)

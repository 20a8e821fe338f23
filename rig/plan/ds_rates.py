"""What a GPU computes, by model name: dense bf16 matrix rates (fp16 before Ampere) from vendors' data sheets."""

# TFLOP/s with fp32 accumulation, without sparsity. The longest matching name wins. Sources: NVIDIA data sheets A100
# (2021-06), H100 (2023), H200 (2024), B200 (2024), L40S, L4, A10, A30, A40, V100, T4; Ada and Ampere whitepapers
# (GeForce rates are half of those with fp16 accumulation).
PEAK_TFLOPS = {
    "B300": 2250.0,
    "B200": 2250.0,
    "GB200": 2250.0,
    "GH200": 989.0,
    "H200": 989.0,
    "H100": 989.0,
    "H100 PCIe": 756.0,
    "H800": 989.0,
    "H20": 148.0,
    "A100": 312.0,
    "A800": 312.0,
    "A30": 165.0,
    "A40": 149.7,
    "A10": 125.0,
    "A10G": 70.0,
    "L40S": 362.0,
    "L40": 181.0,
    "L4": 121.0,
    "V100": 125.0,
    "T4": 65.0,
    "RTX 5090": 209.0,
    "RTX 4090": 165.0,
    "RTX 4080": 97.0,
    "RTX 3090": 71.0,
    "RTX 6000 Ada": 364.0,
    "RTX A6000": 155.0,
}
SUSTAINED = 0.5  # share of the peak that a well-fed transformer layer keeps; an assumption (Megatron reports 0.45-0.52)
CPU_FLOPS = 1e10  # a rank on a CPU core or two; an assumption, used for tests without GPUs only
MEMORY_GB = {
    "A100-40G": 40,
    "A100": 80,
    "A10": 24,
    "A10G": 24,
    "RTX 4090": 24,
    "H100": 80,
    "T4": 16,
    "V100": 16,
    "L4": 24,
}


def sustained_flops(model: str | None) -> float | None:
    """FLOP/s that one GPU of this name keeps up; None for a name that is not in the table."""
    peak = _longest(model, PEAK_TFLOPS)
    return None if peak is None else peak * 1e12 * SUSTAINED


def usual_memory_bytes(model: str | None) -> int | None:
    """Memory of a GPU of this name in its usual size, for plans on paper; a detected size is better."""
    size = _longest(model, MEMORY_GB)
    return None if size is None else int(size * 1e9)


def _longest(model: str | None, table: "dict[str, float] | dict[str, int]") -> float | None:
    words = f" {(model or '').upper().replace('-', ' ')} "
    best, found = "", None
    for name, value in table.items():
        wanted = f" {name.upper().replace('-', ' ')} "
        if wanted in words and len(name) > len(best):
            best, found = name, value
    return found

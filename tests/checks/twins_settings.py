"""Fixtures of the family settings."""

from tests.checks.snapshots import h100, rtx4090
from tests.checks.twin import Twin, changed

TWINS = (
    Twin(
        "no_debugging_of_ranks_is_left_on",
        changed(h100(), environ={"TORCH_DISTRIBUTED_DEBUG": "detail"}),
        changed(h100(), environ={"TORCH_DISTRIBUTED_DEBUG": "INFO", "PYTORCH_NO_CUDA_MEMORY_CACHING": "0"}),
        says="TORCH_DISTRIBUTED_DEBUG=detail: each collective is checked",
        fix="unset TORCH_DISTRIBUTED_DEBUG",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "no_debugging_of_ranks_is_left_on",
        changed(h100(), environ={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
        changed(h100(), environ={"TORCH_DISTRIBUTED_DEBUG": "OFF"}),
        says="cudaMalloc",
        fix="unset PYTORCH_NO_CUDA_MEMORY_CACHING",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "python_finds_the_images_packages",
        changed(h100(), environ={"PYTHONPATH": "/workspace:/opt/conda/lib/python3.10/site-packages/"}),
        changed(h100(), environ={"PYTHONPATH": "/workspace/src:/opt/venv/lib/python3.11/site-packages"}),
        says="/opt/conda/lib/python3.10/site-packages/ before the image's packages",
        fix="unset PYTHONPATH",
        domain="user",
    ),
    Twin(
        "python_finds_the_images_packages",
        changed(h100(), environ={"PYTHONHOME": "/opt/conda"}),
        h100(),
        says="PYTHONHOME=/opt/conda",
        fix="PYTHONHOME",
        domain="user",
    ),
    Twin(
        "threads_fit_the_cpus",
        changed(h100(), environ={"OMP_NUM_THREADS": "1024"}, machine__limits__cpus=-1),
        changed(h100(), environ={"OMP_NUM_THREADS": "4,2"}, machine__limits__cpus=-1),  # unlimited
        says="threads on",
        fix="unset OMP_NUM_THREADS",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "threads_fit_the_cpus",
        changed(rtx4090(), environ={"OMP_NUM_THREADS": "auto"}),
        rtx4090(),
        says="is no number of threads",
        fix="unset OMP_NUM_THREADS",
        domain="user",
        outcome="warn",
    ),
)

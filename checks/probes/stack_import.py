"""What torch and DeepSpeed are here: imports torch, asks nothing of the driver.

`torch.cuda.get_arch_list()` answers with nothing where no GPU is, so the list that was compiled in is read. DeepSpeed's
version comes from its metadata: to import it costs five seconds, which `deepspeed_ops` spends at level full.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from telling import first_line, run, tell


def deepspeed_version() -> str | None:
    from importlib import metadata

    try:
        return metadata.version("deepspeed")
    except metadata.PackageNotFoundError:
        return None


def cudnn_version(number: int | None) -> str | None:
    """8902 is 8.9.2; from 9 on the parts have another place: 90100 is 9.1.0 (cudnn_version.h)."""
    if number is None:
        return None
    major, rest = divmod(number, 10000 if number >= 90000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def main() -> None:
    tell(deepspeed=deepspeed_version(), errors=[], asking="import of torch")
    try:
        import torch
    except Exception as error:  # an ImportError, or whatever a broken package raises
        tell(torch=None, errors=[first_line(error)], asking=None)
        return
    tell(torch=torch.__version__, torch_cuda=torch.version.cuda)
    try:
        flags = torch._C._cuda_getArchFlags() if torch.version.cuda else None
        tell(arch_list=(flags or "").split())
        tell(cudnn=cudnn_version(torch.backends.cudnn.version()) if torch.version.cuda else None)
    except Exception as error:
        tell(errors=[first_line(error)])
    tell(asking=None)


if __name__ == "__main__":
    run(main)

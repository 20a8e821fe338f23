"""Public complaints about health checks, each replayed by a fixture: what others miss, and what they fail wrongly."""

import pytest

from checks import evaluate
from tests.checks.test_twins import CHECKS, TWINS

# Complaint -> reports of which a fixture must name one. What no snapshot can express is not here: a daemon that forgets
# over a restart, a renamed key of another tool, an image tool that cannot set runtime flags, monitoring that does harm.
COMPLAINTS = {
    "a topology file of another machine": ("Azure/azurehpc-health-checks#142",),
    "twelve links of an H100 NVL": ("Azure/azurehpc-health-checks#162",),
    "an A100 PCIe without bridges": ("NVIDIA/NVSentinel#1481",),
    "Xids of the application": ("NVIDIA/NVSentinel#1710",),
    "no character device by design": ("NVIDIA/NVSentinel#1716",),
    "an H100 PCIe has no fabric": ("leptonai/gpud#1147",),
    "H200 is not GH200": ("leptonai/gpud#1206",),
    "a box with one HCA": ("leptonai/gpud#200",),
    "busy after a burn": ("NVIDIA/DCGM#272",),
    "warnings on an L40S": ("NVIDIA/DCGM#253",),
    "an idle PCIe link looks slow": ("local-inference-lab/rtx6kpro#88", "NVIDIA/open-gpu-kernel-modules#1010"),
    "Xid 94 keeps a good GPU away": ("NVIDIA/gpu-operator#1065", "NVIDIA/k8s-device-plugin#945"),
    "floors beyond physics": ("aws-samples/awsome-distributed-training@7217859",),
    "fabric manager down for days": ("NVIDIA/NVSentinel#883",),
    "fabric state of one kind only": ("leptonai/gpud#1151",),
    "an allocation error that passes": ("NVIDIA/DCGM#284",),
    "healthy with a reset due": ("NVIDIA/DCGM#263",),
    "an unknown kind is skipped in silence": ("NVIDIA/DCGM#55",),
    "memory that stalls under load": ("NVIDIA/NVSentinel#1748",),
    "no libibverbs in the container": ("NVIDIA/nvidia-container-toolkit#1877",),
    "the NCCL that is not the one loaded": ("pytorch/pytorch#122571",),
    "the version that torch reports": ("NVIDIA/nccl#1212",),
    "NCCL linked statically": ("NVIDIA/nccl#1171",),
    "fabric status without resources": ("Azure/azhpc-images#506",),
    "a tool that is missing": ("leptonai/gpud#420",),
    "peermem loaded, not registered": ("NVIDIA/nccl#1537",),
    "GPUDirect by attribute alone": ("ofiwg/libfabric#12409",),
    "a driver that never answers": ("leptonai/gpud#117",),
    "GPUs gone from a running container": ("NVIDIA/nvidia-container-toolkit#48",),
    "compat libraries on a newer driver": ("NVIDIA/nvidia-container-toolkit#291",),
    "64 MB of shared memory": ("NVIDIA/nccl#342",),
    "memlock": ("NVIDIA/nccl-tests#206",),
    "GIDs of another namespace": ("NVIDIA/nccl#1573",),
    "802 without a word on the fabric manager": ("pytorch/pytorch#35710",),
    "nvcc of another line": ("deepspeedai/DeepSpeed#3223",),
    "a hostfile that cannot be": ("deepspeedai/DeepSpeed#2612", "deepspeedai/DeepSpeed#4907"),
    "who is the slow one": ("deepspeedai/DeepSpeed#1617",),
    "NCCL too old for the GPU": ("mila-iqia/milabench#183",),
    "RDMA health was not looked at": ("NVIDIA/NVSentinel#642",),
    "down-trained links": ("NVIDIA/NVSentinel#890",),
    "consumer cards": ("NVIDIA/DCGM#195", "NVIDIA/dcgm-exporter#404"),
    "peer copies of a consumer card": ("NVIDIA/nccl-tests#117",),
}


@pytest.mark.parametrize("reports", COMPLAINTS.values(), ids=list(COMPLAINTS))
def test_a_complaint_is_replayed_what_is_broken_is_named_and_its_innocent_twin_is_not(reports: tuple[str, ...]) -> None:
    twins = [twin for twin in TWINS if set(reports) & set(twin.reported)]
    assert twins
    for twin in twins:
        spoken = evaluate(CHECKS[twin.id], twin.broken)
        assert [one.id for one in spoken.findings if one.outcome == twin.outcome and one.text], (twin.id, spoken.why)
        innocent = evaluate(CHECKS[twin.id], twin.healthy)
        assert (innocent.outcome, innocent.findings) == ("pass", ()), (twin.id, innocent.why)

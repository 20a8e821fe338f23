"""Fixtures of the family topology."""

from rig.captured import Captured, Tree
from rig.platform import PATH, load_platform
from rig.snapshot import Snapshot
from tests.checks.snapshots import a100, h100, healthy, rtx4090
from tests.checks.twin import Twin, changed

GIB = 1 << 30


def redirecting(now: Snapshot) -> Snapshot:
    pci = tuple(one._replace(acs_redirects=True) if one.class_code == "060400" else one for one in now.machine.pci)
    return changed(now, machine__pci=pci)  # type: ignore[no-any-return]


GARBAGE = Tree()
GARBAGE.folder(PATH.rpartition("/")[0])[PATH.rpartition("/")[2]] = None
GARBAGE.texts[PATH] = "\x00 no JSON"

TWINS = (
    Twin(
        "platform_file_can_be_used",
        changed(h100(), plan__findings=load_platform(Captured(GARBAGE))[1]),
        h100(),
        says="/etc/rdma/network_topology.json is ignored",
        fix="",
        domain="platform",
        outcome="warn",
    ),
    Twin(
        "bridges_do_not_redirect_peer_traffic",
        redirecting(h100()),
        h100(),
        says="ACS redirects",
        fix="setpci",
        domain="host",
        outcome="warn",
        reported=("NVIDIA/nccl#667", "NVIDIA/nccl#606", "NVIDIA/nccl#257", "NVIDIA/nccl#631", "NVIDIA/nccl#2079"),
    ),
    Twin(
        "iommu_does_not_translate",
        changed(h100(), machine__kernel__iommu="translated"),
        h100(),  # passed through
        says="IOMMU translates",
        fix="iommu=pt",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "devices_know_their_numa_node",
        changed(a100(), machine__gpus__0__numa=None, machine__hcas__2__numa=None),
        changed(rtx4090(), machine__numa=rtx4090().machine.numa[:1], machine__gpus__0__numa=None),  # one socket
        says="GPU 0, mlx5_2",
        fix="firmware",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "nvlinked_gpus_grant_peer_access",
        changed(h100(), machine__gpus__3__p2p=False, machine__gpus__3__p2p_peers=()),
        rtx4090(),  # none on these cards, by design
        says="GPU 3 has NVLink",
        fix="fabric manager",
        domain="host",
    ),
    Twin(
        "bar_holds_the_gpus_memory",
        changed(h100(), host__gpus__5__bar1_bytes=GIB // 4),
        healthy("vm-flat-pci"),
        says="GPU 5: a BAR of 0.25 GiB for 80 GiB",
        fix="Above 4G",
        domain="host",
        outcome="warn",
    ),
)

"""Writes tests/machines/*/tree.txt: machines made on paper after public descriptions, not recorded from real ones.

Run it after a change here: `python tests/machines/make_trees.py`. Bus ids and names follow vendors' documentation and
public reports (DGX A100 user guide, HGX H100 reference platform, AWS p4d topology file of aws-ofi-nccl).
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from gids import gid_local, roce  # noqa: E402
from paper import Paper  # noqa: E402
from servers import DOCKER_IPC, IB, PAIRS, PRIVILEGED, dgx_a100, h100_ib, h100_roce, hgx_h100  # noqa: E402

from rig.capture_text import render  # noqa: E402

DOCKER = "00000000a80425fb"


def rtx4090() -> Paper:
    """Eight consumer cards on two sockets, no peer access, no RDMA, docker's own limits."""
    paper = Paper(vendor="AMD")
    for at, base in enumerate((0x00, 0x20, 0x40, 0x60, 0x80, 0xA0, 0xC0, 0xE0)):
        port = paper.bridge(
            f"/sys/devices/pci0000:{base:02x}", f"0000:{base:02x}:01.1", ids="1022:1483", numa=at // 4, link="16.0 16"
        )
        paper.gpu(
            port,
            f"0000:{base + 1:02x}:00.0",
            "NVIDIA GeForce RTX 4090",
            device="2684",
            numa=at // 4,
            memory=24,
            link="16.0 16",
        )
    paper.loopback()
    paper.netdev("eth0", ipv4="192.0.2.2/24", default=True, speed=10000, lower=7)
    paper.driver("535.161.07")
    paper.answer(capability="8.9", links=0, p2p=2, version="535.161.07")
    paper.nodes(("0-31,64-95", "32-63,96-127"), 512)
    paper.kernel("5.15.0-101-generic", "nvidia_drm")
    paper.file("/.dockerenv")
    paper.process(memlock="65536", cpus="0-127", caps=DOCKER, shm_gib=0.0625, nofile=1048576)
    paper.cgroup(cpu="6400000 100000", memory=str(400 << 30), pids="4096")
    paper.image()
    return paper


def vm_flat() -> Paper:
    """A KVM guest: four GPUs and four InfiniBand VFs side by side on bus 0, no NUMA node known."""
    paper = Paper(virtual=True)
    bus = "/sys/devices/pci0000:00"
    for at in range(4):
        paper.gpu(bus, f"0000:00:{at + 5:02x}.0", "NVIDIA H100 80GB HBM3", device="2330", link="2.5 16")
    paper.loopback()
    nic = paper.pci(bus, "0000:00:03.0", code="020000", ids="1af4:1041", link="2.5 1")
    paper.netdev("eth0", above=f"{nic}/virtio0", ipv4="192.0.2.40/24", default=True, speed=-1)
    for at in range(4):
        folder = paper.pci(bus, f"0000:00:{at + 9:02x}.0", code="020700", ids="15b3:101e", link="2.5 16")
        paper.netdev(f"ib{at}", above=folder, arp=32, mtu=4092, speed=400000)
        paper.hca(
            folder, f"mlx5_{at}", guid=at + 1, gids=(f"0,{gid_local(at + 1)},IB/RoCE v1,?",), table=8, kind="MT4126"
        )
    paper.driver("535.129.03")
    paper.answer(capability="9.0", links=18, p2p=0)
    paper.nodes(("0-103",), 960)
    paper.kernel("5.15.0-1053-kvm", *IB)
    paper.process(memlock="unlimited", cpus="0-103", caps=PRIVILEGED, shm_gib=472)
    paper.cgroup()
    paper.dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)")
    paper.image()
    return paper


def pod_sriov() -> Paper:
    """A pod with four VFs of its own. The kernel shows the host's devices too, but tells no GID type of theirs, and
    their nodes are not in the pod."""
    paper = Paper()
    cards = hgx_h100(paper, PAIRS)
    paper.loopback()
    paper.netdev("eth0", ipv4="192.0.2.50/32", default=True, mtu=1450, speed=10000, lower=30)
    for at, folder in enumerate(cards):
        foreign = tuple(
            f"{entry.split(',')[0]},{entry.split(',')[1]},?,?" for entry in roce(f"198.51.100.{at + 1}", "?", at + 1)
        )
        paper.hca(folder, f"mlx5_{at}", layer="Ethernet", guid=at + 1, gids=foreign, opens=None)
    for at in range(4):
        parent, _, card = cards[at].rpartition("/")
        folder = paper.pci(parent, f"{card[:-3]}0.2", code="020000", ids="15b3:101e", numa=0, link="32.0 16")
        paper.link(f"{folder}/physfn", cards[at])
        paper.netdev(f"net{at + 1}", above=folder, speed=400000, mtu=9000, ipv4=f"203.0.113.{16 * at + 2}/28")
        own = roce(f"203.0.113.{16 * at + 2}", f"net{at + 1}", 60 + at, first=4)
        others = tuple(f"{index},{gid_local(200 + index)},?,?" for index in range(4))
        paper.hca(folder, f"mlx5_{at + 8}", layer="Ethernet", guid=at + 1, gids=(*others, *own), kind="MT4126")
    paper.kernel("5.15.0-105-generic", *IB, "nvidia_peermem")
    paper.file("/sys/module/nvidia_peermem/version", "550.54.15")
    paper.names("/var/run/secrets/kubernetes.io", "serviceaccount")
    pod = "/kubepods.slice/kubepods-burstable.slice/cri-containerd-" + "0" * 63 + "1.scope"
    paper.process(memlock="unlimited", cpus="0-223", caps=DOCKER_IPC, shm_gib=128, cgroup=f"0::{pod}")
    paper.cgroup(cpu="9600000 100000", memory=str(1024 << 30))
    paper.image()
    return paper


def efa_p4d() -> Paper:
    """An EC2 p4d.24xlarge: four EFA devices, each beside two GPUs, below emulated root buses."""
    paper = Paper(virtual=True)
    for at, bus in enumerate(("10", "20", "90", "a0")):
        for slot in ("1c", "1d"):
            paper.gpu(
                f"/sys/devices/pci0000:{bus}",
                f"0000:{bus}:{slot}.0",
                "NVIDIA A100-SXM4-40GB",
                device="20b0",
                numa=at // 2,
                memory=40,
                link="8.0 16",
            )
    paper.loopback()
    for at, bus in enumerate(("10", "20", "90", "a0")):
        folder = paper.pci(
            f"/sys/devices/pci0000:{bus}",
            f"0000:{bus}:1b.0",
            code="020000",
            ids="1d0f:efa1",
            numa=at // 2,
            link="8.0 16",
        )
        paper.netdev(f"ens{32 * (at + 1)}", above=folder, mtu=9001, ipv4=f"192.0.2.{64 * at + 5}/26", default=at == 0)
        paper.hca(
            folder,
            f"rdmap{int(bus, 16)}s27",
            layer="Unknown",
            rate=100,
            gids=(f"0,{gid_local(at + 1)},?,?",),
            driver="efa",
            table=1,
            kind="0xefa1",
        )
    paper.driver("535.161.08")
    paper.answer(capability="8.0", links=12, p2p=0, version="535.161.08")
    paper.nodes(("0-23,48-71", "24-47,72-95"), 1152)
    paper.kernel("5.10.215-203.850.amzn2.x86_64", "efa", "ib_core", "ib_uverbs")
    paper.process(memlock="unlimited", cpus="0-95", caps=PRIVILEGED, shm_gib=560)
    paper.dmi("Amazon EC2", "p4d.24xlarge", "Amazon EC2")
    paper.image(plugin="/opt/amazon/ofi-nccl/lib")
    return paper


def nothing() -> Paper:
    """A docker container on a machine without GPUs."""
    paper = Paper(vendor="AMD", virtual=True)
    paper.loopback()
    paper.netdev("eth0", ipv4="192.0.2.3/24", default=True, speed=10000, lower=5)
    paper.nodes(("0-1",), 16)
    paper.kernel("6.1.0-18-cloud-amd64")
    paper.file("/.dockerenv")
    paper.process(memlock="8388608", cpus="0-1", caps=DOCKER, shm_gib=0.0625)
    paper.cgroup(memory=str(4 << 30))
    paper.image()
    return paper


MACHINES = {
    "dgx-a100": dgx_a100,
    "hgx-h100-ib": h100_ib,
    "h100-roce-bonds": h100_roce,
    "rtx4090-no-p2p": rtx4090,
    "vm-flat-pci": vm_flat,
    "pod-sriov-vfs": pod_sriov,
    "aws-p4d-efa": efa_p4d,
    "nothing": nothing,
}


def text_of(name: str) -> str:
    """The capture of a machine, with the note that it was made."""
    make = MACHINES[name]
    about = " ".join((make.__doc__ or "").split())
    return render(make().done(), (f"Made on paper by make_trees.py, not recorded: {name}.", about))


if __name__ == "__main__":
    for name in MACHINES:
        (HERE / name).mkdir(exist_ok=True)
        (HERE / name / "tree.txt").write_text(text_of(name))

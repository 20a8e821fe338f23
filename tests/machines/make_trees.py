"""Writes tests/machines/*/tree.txt: machines made on paper after public descriptions, not recorded from real ones.

Run it after a change here: `python tests/machines/make_trees.py`. Bus ids and names follow vendors' documentation and
public reports (DGX A100 user guide, HGX H100 reference platform, AWS p4d topology file of aws-ofi-nccl).
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from paper import Paper, gid_local, roce  # noqa: E402

from rig.capture_text import render  # noqa: E402

PRIVILEGED = "000001ffffffffff"
DOCKER = "00000000a80425fb"
DOCKER_IPC = "00000000a80465fb"  # docker's own and IPC_LOCK
IB = ("ib_core", "ib_uverbs", "ib_umad", "ib_ipoib", "mlx5_core", "mlx5_ib", "rdma_cm", "rdma_ucm")


def dgx_a100() -> Paper:
    """Four PEX88096 in base mode, each two virtual levels: two GPUs and two HCAs below; two dual-port storage cards."""
    paper = Paper(vendor="AMD")
    pex, numas = "1000:c010:1000:a096", (3, 1, 7, 5)
    gpus = (("07", "0f"), ("47", "4e"), ("87", "90"), ("b7", "bd"))
    cards = (("0c", "12"), ("4b", "54"), ("8d", "94"), ("ba", "cc"))
    hcas: list[tuple[str, str]] = []
    for at, (pair, nics, numa) in enumerate(zip(gpus, cards, numas, strict=True)):
        base = (0x00, 0x40, 0x80, 0xB0)[at]
        port = paper.bridge(
            f"/sys/devices/pci0000:{base:02x}", f"0000:{base:02x}:01.1", ids="1022:1483", numa=numa, link="16.0 16"
        )
        downs = paper.switch(
            port,
            f"0000:{base + 1:02x}:00.0",
            (f"0000:{base + 2:02x}:00.0", f"0000:{base + 2:02x}:10.0"),
            ids=pex,
            numa=numa,
        )
        for side, down in enumerate(downs):
            inner = base + 3 + 5 * side
            top, nic = paper.switch(
                down,
                f"0000:{inner:02x}:00.0",
                (f"0000:{inner + 1:02x}:00.0", f"0000:{inner + 1:02x}:10.0"),
                ids=pex,
                numa=numa,
            )
            paper.gpu(
                top,
                f"0000:{pair[side]}:00.0",
                "NVIDIA A100-SXM4-40GB",
                device="20b0",
                numa=numa,
                memory=40,
                link="16.0 16",
            )
            hcas.append(
                (paper.pci(nic, f"0000:{nics[side]}:00.0", code="020700", ids="15b3:101b", numa=numa), "InfiniBand")
            )
    for bus, at in (("61", 4), ("e1", 10)):
        root = paper.bridge(
            f"/sys/devices/pci0000:{int(bus, 16) - 1:02x}",
            f"0000:{int(bus, 16) - 1:02x}:01.1",
            ids="1022:1483",
            numa=(at + 1) // 2 % 8,
        )
        for function in (0, 1):
            hcas.insert(
                at + function,
                (
                    paper.pci(
                        root, f"0000:{bus}:00.{function}", code="020000", ids="15b3:101b", numa=(at + 1) // 2 % 8
                    ),
                    "Ethernet",
                ),
            )
    for number in range(6):
        paper.pci(
            "/sys/devices/pci0000:c0/0000:c0:01.1",
            f"0000:{0xC4 + number:02x}:00.0",
            code="068000",
            ids="10de:1af1",
            numa=5,
        )
    paper.loopback()
    board = paper.pci(
        "/sys/devices/pci0000:e0/0000:e0:03.5", "0000:e2:00.0", code="020000", ids="8086:1533", numa=5, link="2.5 1"
    )
    paper.netdev("enp226s0", above=board, speed=1000, ipv4="192.0.2.10/25", default=True)
    for number, (folder, layer) in enumerate(hcas):
        if layer == "InfiniBand":
            paper.netdev(f"ibp{number}s0", above=folder, arp=32, up=False, mtu=2044)
            paper.hca(
                folder,
                f"mlx5_{number}",
                rate=200,
                guid=number + 1,
                gids=(f"0,{gid_local(number + 1)},IB/RoCE v1,?",),
                table=8,
                kind="MT4123",
            )
        else:
            name, address = f"enp{225 if number > 9 else 97}s0f{number % 2}", f"198.51.100.{number}"
            up = number in (4, 10)
            paper.netdev(name, above=folder, up=up, speed=200000, mtu=9000, ipv4=f"{address}/28" if up else "")
            gids = roce(address, name, 100 + number) if up else roce(address, name, 100 + number)[:2]
            paper.hca(
                folder,
                f"mlx5_{number}",
                layer=layer,
                rate=200,
                guid=100 + number // 2,
                gids=gids,
                kind="MT4123",
                state="4: ACTIVE" if up else "1: DOWN",
            )
    paper.driver("535.129.03")
    paper.answer(capability="8.0", links=12, p2p=0)
    paper.nodes(tuple(f"{16 * n}-{16 * n + 15},{128 + 16 * n}-{143 + 16 * n}" for n in range(8)), 1024)
    paper.kernel("5.15.0-1042-nvidia", *IB, "nvidia_peermem", cmdline="iommu=pt")
    paper.names("/sys/kernel/mm/memory_peers", "nv_mem")
    paper.file("/sys/kernel/mm/memory_peers/nv_mem/version", "1.3")
    paper.file("/sys/module/nvidia_peermem/version", "535.129.03")
    paper.process(memlock="unlimited", cpus="0-255", caps=PRIVILEGED, shm_gib=503)
    paper.cgroup()
    paper.iommu("identity", "ivhd0", "ivhd1", "ivhd2", "ivhd3")
    paper.dmi("NVIDIA", "DGXA100 920-23687-2530-000")
    paper.filler(150)
    return paper


def hgx_h100(paper: Paper, pairs: tuple[tuple[str, str], ...]) -> list[str]:
    """Eight H100 and eight network cards, a pair below each switch, four pairs a socket; folders of the cards."""
    cards = []
    for at, (gpu, nic) in enumerate(pairs):
        numa, base = at // 4, int(gpu, 16) - 4
        port = paper.bridge(f"/sys/devices/pci0000:{base:02x}", f"0000:{base:02x}:01.0", numa=numa)
        first, second = paper.switch(
            port, f"0000:{base + 1:02x}:00.0", (f"0000:{base + 2:02x}:00.0", f"0000:{base + 2:02x}:01.0"), numa=numa
        )
        cards.append(paper.pci(second, f"0000:{nic}:00.0", code="020700", ids="15b3:1021", numa=numa, link="32.0 16"))
        paper.gpu(first, f"0000:{gpu}:00.0", "NVIDIA H100 80GB HBM3", device="2330", numa=numa)
    paper.driver("550.54.15", open_modules=True)
    paper.answer(capability="9.0", links=18, p2p=0, version="550.54.15")
    paper.nodes(("0-55,112-167", "56-111,168-223"), 2048)
    for number in range(4):
        paper.pci(
            "/sys/devices/pci0000:00/0000:00:1c.0",
            f"0000:{number + 2:02x}:00.0",
            code="068000",
            ids="10de:22a3",
            numa=0,
        )
    return cards


PAIRS = (("19", "1a"), ("3b", "3c"), ("4c", "4d"), ("5d", "5e"), ("9b", "9c"), ("bb", "bc"), ("cb", "cc"), ("db", "dc"))


def h100_ib() -> Paper:
    """Eight NDR rails and one Ethernet front-end card, on the host."""
    paper = Paper()
    cards = hgx_h100(paper, PAIRS)
    port = paper.bridge("/sys/devices/pci0000:29", "0000:29:01.0", numa=0)
    front = paper.pci(port, "0000:2a:00.0", code="020000", ids="15b3:101d", numa=0)
    paper.loopback()
    paper.netdev(
        "ens6f0np0",
        above=front,
        speed=100000,
        ipv4="192.0.2.20/24",
        default=True,
        ipv6="20010db8000000000000000000000020",
    )
    for at, folder in enumerate([*cards[:4], front, *cards[4:]]):
        if folder is front:
            paper.hca(
                folder,
                f"mlx5_{at}",
                layer="Ethernet",
                rate=100,
                guid=40,
                gids=roce("192.0.2.20", "ens6f0np0", 40),
                kind="MT4125",
            )
            continue
        paper.netdev(
            f"ibp{int(folder[-7:-5], 16)}s0",
            above=folder,
            arp=32,
            up=at != 3,
            speed=400000,
            mtu=4092,
            ipv4=f"198.51.100.{at + 1}/24",
        )
        paper.hca(folder, f"mlx5_{at}", rate=400, guid=at + 1, gids=(f"0,{gid_local(at + 1)},IB/RoCE v1,?",), table=8)
    paper.kernel("5.15.0-105-generic", *IB, "nvidia_peermem", "gdrdrv", cmdline="iommu=pt pci=realloc=off")
    paper.file("/boot/config-5.15.0-105-generic", "CONFIG_PCI_P2PDMA=y")
    paper.file("/sys/module/nvidia_peermem/version", "550.54.15")
    paper.process(memlock="unlimited", cpus="0-223", caps=PRIVILEGED, shm_gib=1007)
    paper.cgroup()
    paper.iommu("identity", *(f"dmar{number}" for number in range(10)))
    paper.dmi("Supermicro", "SYS-821GE-TNHR")
    paper.image()
    paper.filler(180)
    return paper


def h100_roce() -> Paper:
    """Eight bonds of two 200G ports, one RDMA device each, and a bond for everything else; a docker container."""
    paper = Paper()
    cards = hgx_h100(paper, PAIRS)
    paper.loopback()
    port = paper.bridge("/sys/devices/pci0000:29", "0000:29:01.0", numa=0)
    front = paper.pci(port, "0000:2a:00.0", code="020000", ids="15b3:101d", numa=0)
    paper.netdev("bond0", devtype="bond", speed=50000, ipv4="192.0.2.30/26", default=True)
    paper.netdev("ens1f0np0", above=front, speed=25000, master="bond0")
    paper.hca(
        front, "mlx5_bond_0", layer="Ethernet", rate=25, guid=40, gids=roce("192.0.2.30", "bond0", 40), kind="MT4125"
    )
    for at, folder in enumerate(cards, 1):
        bond, address = f"bond{at}", f"198.51.100.{16 * at + 2}"
        paper.netdev(bond, devtype="bond", speed=400000, mtu=9000, ipv4=f"{address}/28")
        paper.netdev(f"ens{at + 1}f0np0", above=folder, speed=200000, mtu=9000, master=bond)
        second = paper.pci(
            folder.rpartition("/")[0], f"{folder[-12:-1]}1", code="020000", ids="15b3:1021", numa=(at - 1) // 4
        )
        paper.netdev(f"ens{at + 1}f1np1", above=second, speed=200000, mtu=9000, master=bond)
        paper.hca(folder, f"mlx5_bond_{at}", layer="Ethernet", rate=400, guid=at, gids=roce(address, bond, at))
    paper.kernel("6.8.0-40-generic", *IB, "bonding", "nvidia_peermem")
    paper.file("/sys/module/nvidia_peermem/version", "550.54.15")
    paper.file("/.dockerenv")
    paper.process(memlock="unlimited", cpus="0-223", caps=DOCKER_IPC, shm_gib=64)
    paper.cgroup()
    paper.image()
    return paper


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

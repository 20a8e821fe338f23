"""Servers with NVSwitch, laid out after vendors' documentation. Used by make_trees.py."""

from gids import gid_local, roce
from paper import Paper

PRIVILEGED = "000001ffffffffff"
DOCKER_IPC = "00000000a80465fb"  # docker's own and IPC_LOCK
IB = ("ib_core", "ib_uverbs", "ib_umad", "ib_ipoib", "mlx5_core", "mlx5_ib", "rdma_cm", "rdma_ucm")
PAIRS = (("19", "1a"), ("3b", "3c"), ("4c", "4d"), ("5d", "5e"), ("9b", "9c"), ("bb", "bc"), ("cb", "cc"), ("db", "dc"))


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
    paper.image()
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

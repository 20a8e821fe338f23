"""Names, addresses and serial numbers are replaced, and nothing else changes."""

import json

import pytest

from entrypoint import capture as verb
from rig.anonymous import Aliases, anonymous, number4, text4
from rig.capture_text import render
from rig.captured import Captured, parse
from rig.detect import detect
from rig.platform import load_platform
from rig.root import IPV4_FILE, Collected
from rig.subnet import parse_address
from tests.machines.gids import gid4, roce
from tests.machines.paper import Paper
from tests.rig.captured_machines import NAMES, machine_of, shape


@pytest.mark.parametrize("name", NAMES)
def test_replaced_names_leave_the_facts_as_they_are(name: str) -> None:
    captured = machine_of(name)
    replaced = Captured(anonymous(captured.tree))
    assert shape(detect(replaced)) == shape(detect(captured))


PRIVATE_CONF = (
    "NCCL_COMM_ID=rack7-gpu43.corp.example:1234",
    "NCCL_IB_ADDR_RANGE=fd42:1:2:3::/64",
    "NCCL_DEBUG_FILE=/home/alice/log.%h",
    "NCCL_SOCKET_IFNAME==eth1",
)
PRIVATE_PLATFORM = {
    "schema_version": 1,
    "platform": {"provider": "example", "generator": "acme-inventory 1.2.3.4"},
    "node": {"hostname_match": "rack7-*", "rack": "hall-b-7"},
    "nics": [
        {"name": "mlx5_0", "bus_id": "0000:00:05.0", "role": "compute", "subnet": "10.77.0.0/16"},
        {"name": "mlx5_1", "subnet": "fd42:1:2:3::/64"},
        {"name": "mlx5_2", "subnet": "fd42:1:2::/48"},
    ],
    "fabric": {"type": "rocev2", "switch_path": ["leaf-acme-1"], "accelerator_domain": "acme-nvl"},
    "cluster": {
        "nodes": [{"name": "rack7-gpu42", "slots": 1}, {"name": "rack9-gpu1.corp.example", "rack": "hall-b-9"}]
    },
}


def private() -> Paper:
    """A machine full of things that must not leave it."""
    paper = Paper()
    paper.loopback()
    card = paper.pci("/sys/devices/pci0000:00", "0000:00:05.0", code="020000", ids="15b3:1021", numa=0)
    paper.netdev(
        "enx0c42a1b2c3d4", above=card, ipv4="10.77.3.4/16", ipv6="fd4200000000000000000000deadbeef", default=True
    )
    paper.file(f"{card}/net/enx0c42a1b2c3d4/address", "0c:42:a1:b2:c3:d4")
    paper.netdev("eth1", above=card, ipv4="10.77.9.9/16", ipv6="fe800000000000000e42a1fffeb2c3d4")
    gids = (*roce("10.77.3.4", "enx0c42a1b2c3d4", 1), "4,fe80:0000:0000:0000:0e42:a1ff:feb2:c3d4,RoCE v2,eth1")
    folder = paper.hca(card, "mlx5_0", layer="Ethernet", gids=gids)
    paper.file(f"{folder}/sys_image_guid", "0c42:a103:00b2:c3d4")
    paper.gpu("/sys/devices/pci0000:00", "0000:00:06.0", "NVIDIA L4", device="27b8")
    paper.driver()
    information = "/proc/driver/nvidia/gpus/0000:00:06.0/information"
    paper.file(information, "Model: NVIDIA L4", "GPU UUID: GPU-5ebe9f3c-aaaa-bbbb-cccc-0123456789ab", "Device Minor: 0")
    paper.answer(capability="8.9", links=0, p2p=0)
    told = paper.tree.programs[("rig-nvml",)]
    uuid = told.output.replace("00000000-0000-4000-8000-000000000001", "5ebe9f3c-aaaa-bbbb-cccc-0123456789ab")
    paper.tree.programs[("rig-nvml",)] = Collected("ok", uuid)
    paper.kernel("6.8.0", cmdline="root=UUID=5ebe9f3c-aaaa-bbbb-cccc-0123456789ab iommu=pt")
    paper.file("/proc/sys/kernel/hostname", "rack7-gpu42.corp.example")
    group = "0::/user.slice/user-alice.slice/user@4242.service/kubepods/pod5ebe9f3c_aaaa_bbbb_cccc_0123456789ab/"
    group += "ab" * 32 + "/rack7-gpu42"
    paper.process(memlock="65536", cpus="0-7", caps="0", shm_gib=1, cgroup=group)
    paper.file("/etc/nccl.conf", *PRIVATE_CONF)
    paper.file("/etc/rdma/network_topology.json", json.dumps(PRIVATE_PLATFORM))
    paper.dmi("Supermicro", "X", "ASSET-4711")
    return paper


SECRETS = (
    "rack7", "gpu42", "10.77", "0a4d:0304", "0a4d0304", "deadbeef", "a1b2c3d4", "a1:b2", "a1ff:feb2", "fffeb2",
    "a103:00b2", "5ebe9f3c", "abababab", "4711", "UUID=",
    "rack9", "corp", "alice", "4242", "hall-b", "acme", "fd42", "fd4200",
)  # fmt: skip


def test_nothing_private_leaves_the_machine() -> None:
    text, lost = verb.capture(Captured(private().done()))
    assert lost == []
    assert [secret for secret in SECRETS if secret in text] == []


def test_a_platform_file_and_a_conf_say_the_same_behind_other_names() -> None:
    replayed = Captured(parse(verb.capture(Captured(private().done()))[0]))
    platform, findings = load_platform(replayed)
    assert platform is not None and findings == ()
    assert [node.name for node in platform.nodes] == ["node-1", "node-3"]  # node-2 stands in nccl.conf
    assert [node.slots for node in platform.nodes] == [1, None] and platform.rack != platform.nodes[1].rack
    assert (platform.nics[0].role, platform.fabric.type, platform.provider) == ("compute", "rocev2", "example")
    machine = detect(replayed)
    ours, other, wide = (parse_address(nic.subnet or "") for nic in platform.nics)
    address = parse_address(next(dev for dev in machine.netdevs if dev.name == "eth1").ipv4[0])
    assert ours and address and ours.holds(address) and other and wide and not other.holds(address)
    conf = (replayed.read("/etc/nccl.conf") or "").splitlines()
    assert conf[0] == "NCCL_COMM_ID=node-2:1234" and conf[3] == "NCCL_SOCKET_IFNAME==eth1"
    assert parse_address(conf[1].partition("=")[2]) == other


@pytest.mark.parametrize("name", ["vm", "a1", "gpu"])
def test_a_short_host_name_is_replaced_where_it_can_only_be_the_host(name: str) -> None:
    paper = Paper()
    paper.file("/proc/sys/kernel/hostname", name)
    paper.file("/proc/self/cgroup", f"0::/lxc/{name}/x")
    paper.file("/etc/nccl.conf", f"NCCL_COMM_ID={name}:1234", f"NCCL_HOSTID={name}", f"NCCL_DEBUG_FILE=/logs/{name}/x")
    paper.file("/sys/x/driver", f"{name} driver")
    made = anonymous(paper.tree).texts
    assert made["/sys/x/driver"] == f"{name} driver\n"  # a word that stands elsewhere too
    told = made["/proc/self/cgroup"] + made["/etc/nccl.conf"]
    assert name not in told.replace("node-1", "")


def test_homes_keep_their_files_under_another_name() -> None:
    paper = Paper()
    paper.file("/home/alice/venv/lib/x", "1")
    paper.file("/proc/self/cgroup", "0::/slurm/uid_1001/job_5/machine-alicevm.scope")
    made = Captured(anonymous(paper.done()))
    (home,) = made.ls("/home")
    assert home != "alice" and made.read(f"/home/{home}/venv/lib/x") == "1\n"
    assert "1001" not in (made.read("/proc/self/cgroup") or "") and "alice" not in render(made.tree)


def test_a_platform_file_that_is_no_json_tells_nothing() -> None:
    paper = Paper()
    paper.file("/etc/rdma/network_topology.json", '{"cluster": {"nodes": [{"name": "rack9-gpu1"')
    assert anonymous(paper.tree).texts["/etc/rdma/network_topology.json"] == "{\n"


def test_equal_things_stay_equal_and_subnets_stay_subnets() -> None:
    machine = detect(Captured(parse(verb.capture(Captured(private().done()))[0])))
    first, second = (dev for dev in machine.netdevs if dev.name != "lo")
    (port,) = machine.hcas[0].ports
    address, other = first.ipv4[0].partition("/")[0], second.ipv4[0].partition("/")[0]
    assert address != other and number4(address) >> 4 == number4(other) >> 4
    assert first.ipv4[0].endswith("/28") and address.startswith("192.0.2.")
    assert port.gids[2].gid == port.gids[3].gid == gid4(address)
    assert port.gids[4].gid.startswith("fe80:0000:0000:0000:") and second.ipv6[0].startswith("fe80::")
    assert first.ipv6[0].startswith("2001:db8:")
    assert port.gids[0].netdev == first.name and first.default_route
    assert machine.gpus[0].uuid == "GPU-00000000-0000-4000-8000-000000000001"
    assert machine.surroundings.hostname == "node-1" and machine.surroundings.container == "kubernetes"


def test_networks_get_blocks_of_their_own() -> None:
    aliases = Aliases()
    aliases.learn(
        [(number4("10.0.0.5"), 8), (number4("10.1.2.3"), 16), (number4("172.16.0.1"), 31), (number4("1.2.3.4"), 32)]
    )
    outer, inner = aliases.prefix4("10.0.0.5/8"), aliases.prefix4("10.1.2.3/16")
    assert outer.endswith("/28") and inner.endswith("/29")
    assert number4(outer[:-3]) >> 4 == number4(inner[:-3]) >> 4
    assert aliases.prefix4("172.16.0.1/31").endswith("/31") and aliases.prefix4("1.2.3.4/32").endswith("/32")
    assert (
        aliases.prefix4("127.0.0.1/8") == "127.0.0.1/8" and text4(aliases.ipv4(number4("169.254.1.1"))) == "169.254.1.1"
    )
    many = {aliases.prefix4(f"11.{number}.0.1/24") for number in range(200)} | {
        text4(aliases.ipv4(number4(f"12.{number}.0.1"))) for number in range(200)
    }
    assert len(many) == 400


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/sys/x/gids/0", "z" * 39),
        ("/sys/x/gids/0", "Uid:\t0\t0\t0\t0\nCapEff:\tffffffffffffffffff\n"),
        ("/sys/x/sys_image_guid", "no guid"),
        (IPV4_FILE, "eth0 1.2.3." + "9" * 5000 + "/24"),
        ("/proc/net/if_inet6", "zz 01 40 20 80 eth0\n\n"),
    ],
)
def test_what_is_no_address_is_survived(path: str, text: str) -> None:
    paper = Paper()
    paper.file(path, text)
    assert path in anonymous(paper.tree).texts


# --- the text

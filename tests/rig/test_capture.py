"""A capture says what the machine said: in the recording, in the text, behind replaced names, and as a folder."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrypoint import capture as verb
from rig.anonymous import Aliases, anonymous, number4, text4
from rig.capture import Recorder, record_more, reduced
from rig.capture_text import escape, render
from rig.captured import Captured, Tree, open_root, parse, unescape
from rig.detect import detect
from rig.machine import Machine
from rig.platform import load_platform
from rig.root import IPV4_FILE, Collected, Live, Space
from rig.subnet import parse_address
from rig.topology import path_class, tree
from tests.machines.gids import gid4, gid_local, roce
from tests.machines.paper import Paper

MACHINES = Path(__file__).parents[1] / "machines"
NAMES = sorted(folder.name for folder in MACHINES.iterdir() if (folder / "tree.txt").is_file())


def machine_of(name: str) -> Captured:
    return Captured(str(MACHINES / name / "tree.txt"))


def unpack(source: Tree, folder: Path) -> None:
    """The tree as real files and relative links. What refuses is a folder: not even root can read or open one."""
    for path in source.children:
        (folder / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for path, target in source.links.items():
        os.symlink(os.path.relpath(target, os.path.dirname(path)), folder / path[1:])
    for path in (*source.refused, *(path for path, opens in source.opens.items() if not opens)):
        (folder / path[1:]).mkdir(exist_ok=True)
    for path, text in source.texts.items():
        (folder / path[1:]).write_text(text)
    for path, blob in source.blobs.items():
        (folder / path[1:]).write_bytes(blob)
    for path, names in source.children.items():
        for name in names:
            place = folder / f"{path}/{name}".lstrip("/")
            if not os.path.lexists(place):
                place.touch()


@pytest.mark.parametrize("name", ["aws-p4d-efa", "dgx-a100", "nothing", "pod-sriov-vfs", "rtx4090-no-p2p"])
def test_a_folder_is_the_same_machine_as_its_capture(name: str, tmp_path: Path) -> None:
    captured = machine_of(name)
    unpack(captured.tree, tmp_path)
    from_text = detect(captured, ask_driver=False)
    from_folder = detect(Live(str(tmp_path)), ask_driver=False)
    shm = from_text.limits  # a folder's file system has a size of its own
    limits = from_folder.limits._replace(shm_bytes=shm.shm_bytes, shm_free_bytes=shm.shm_free_bytes)
    assert from_folder._replace(limits=limits) == from_text


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_replays_as_the_machine(name: str) -> None:
    recorder = Recorder(machine_of(name))
    machine = detect(recorder)
    record_more(recorder, machine)
    text = render(recorder.tree)
    assert len(text) < 100_000
    assert detect(Captured(parse(text))) == machine


@pytest.mark.parametrize("name", ["vm-flat-pci"])
def test_a_recording_of_a_folder_replays_too(name: str, tmp_path: Path) -> None:
    unpack(machine_of(name).tree, tmp_path)
    recorder = Recorder(Live(str(tmp_path)))
    machine = detect(recorder)
    assert detect(Captured(parse(render(recorder.tree)))) == machine


def shape(machine: Machine) -> tuple[object, ...]:
    """What rules rest on, without any address or id."""
    known = tree(machine.pci)
    pairs = [(gpu.bus_id, hca.bus_id) for gpu in machine.gpus for hca in machine.hcas if gpu.bus_id and hca.bus_id]
    return (
        [path_class(known, gpu, hca) for gpu, hca in pairs],
        [gpu._replace(uuid=None) for gpu in machine.gpus],
        [[(p.name, p.state, p.rate_gbps, len(p.gids), p.netdevs) for p in hca.ports] for hca in machine.hcas],
        [[gid.type for gid in p.gids] for hca in machine.hcas for p in hca.ports],
        [(dev.name, dev.kind, dev.up, dev.default_route, len(dev.ipv4), len(dev.ipv6)) for dev in machine.netdevs],
        [
            [machine.hcas.index(other) for other in machine.hcas if other.sys_image_guid == hca.sys_image_guid]
            for hca in machine.hcas
        ],
        machine.kernel,
        machine.limits,
        machine.libraries,
        machine.pci,
    )


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


def broken(text: str) -> str:
    with pytest.raises(ValueError) as caught:
        parse(text, "tree.txt")
    return str(caught.value)


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        ("", "tree.txt:1: not a capture"),
        ("hello", "tree.txt:1: not a capture"),
        ("rig-capture 1\nhello", "tree.txt:2: neither"),
        ("rig-capture 1\n/a\n  b", "tree.txt:3: unknown entry"),
        ("rig-capture 1\n/a\n  b ~ c", "tree.txt:3: unknown entry '~'"),
        ("rig-capture 1\n/a\n  ../../etc/passwd = x", "tree.txt:3: "),
        ("rig-capture 1\n/a\n  .. = x", "tree.txt:3: "),
        ("rig-capture 1\n/a\n  9..1 = x", "tree.txt:3: 9..1 is no range"),
        ("rig-capture 1\n/a\n  0..99999999999 = x", "tree.txt:3: "),
        ("rig-capture 1\n/a\n  b % x y", "tree.txt:3: "),
        ("rig-capture 1\n/a\n  b @ maybe", "tree.txt:3: "),
        ("rig-capture 1\n/a\n  b =x 99999999999", "tree.txt:3: "),
        ("rig-capture 1\n/a\n  b =x 8 7:ffff", "tree.txt:3: "),
        ("rig-capture 1\n/a\n  b =x 8 0:zz", "tree.txt:3: "),
        ("rig-capture 1\n$ maybe x", "tree.txt:2: "),
        ("rig-capture 1\n\n# c\n/a\n  b |\n    x\nend", "tree.txt:7: "),
    ],
)  # fmt: skip
def test_what_is_no_capture_is_refused_with_its_line(lines: str, where: str) -> None:
    assert broken(lines).startswith(where)


def test_a_capture_is_a_small_file_system() -> None:
    text = """rig-capture 1
# a comment
/sys/class/net
  eth0 -> ../../devices/x/net/eth0
  + lo wlan0
/sys/devices/x/net/eth0
  mtu = 1500
  speed !
  uevent |
    INTERFACE=eth0
     two words\\x20
/dev
  shm % 10 5
  node @ refuses
  cfg =x 8 4:0102
/gids
  2..4 = zero
$ failed tool --flag
    said
"""
    root = Captured(parse(text))
    assert root.read("/sys/class/net/eth0/mtu") == "1500\n"
    assert root.read("/sys/class/net/eth0/uevent") == "INTERFACE=eth0\n two words \n"
    assert root.link("/sys/class/net/eth0") == "/sys/devices/x/net/eth0"
    assert (root.read("/sys/class/net/eth0/speed"), root.link("/sys/class/net/eth0/speed") is None) == (None, False)
    assert root.ls("/sys/class/net") == ["eth0", "lo", "wlan0"] and root.ls("/nowhere") == []
    assert root.ls("/sys/class/net/eth0") == ["mtu", "speed", "uevent"]
    assert (root.opens("/dev/node"), root.opens("/dev/none"), root.space("/dev/shm")) == (False, None, Space(10, 5))
    assert root.peek("/dev/cfg", 3, 3) == b"\0\1\2" and root.peek("/dev/cfg", 6, 100) == b"\0\0"
    assert root.peek("/sys/class/net/eth0/mtu", 0, 2) == b"15" and root.peek("/nowhere", 0, 1) is None
    assert [root.read(f"/gids/{index}") for index in range(1, 6)] == [None, "zero\n", "zero\n", "zero\n", None]
    assert root.run(("tool", "--flag"), 1) is None
    assert root.start(("tool", "--flag"), 1).collect() == Collected("failed", "said\n")
    assert root.start(("other",), 1).collect() == Collected("unasked")
    assert root.link("/") == "/" and "sys" in root.ls("/")


def test_a_folder_named_through_a_link_is_the_folder_behind_it() -> None:
    root = Captured(parse("rig-capture 1\n/a/link\n  x = 1\n/a\n  link -> /b/c\n/b/c\n  y = 2\n"))
    assert root.ls("/b/c") == root.ls("/a/link") == ["x", "y"]
    assert root.read("/b/c/x") == "1\n"


@pytest.mark.parametrize("links", ["  a -> /x/a", "  a -> /x/b\n  b -> /x/a", "  a -> /x/a/b", "  a -> /"])
def test_a_circle_of_links_leads_nowhere(links: str) -> None:
    root = Captured(parse(f"rig-capture 1\n/x\n{links}\n"))
    assert root.read("/x/a/b/c") is None
    assert root.ls("/x/a") in ([], ["x"])


def test_tables_of_zeros_take_one_line() -> None:
    paper = Paper()
    folder = paper.pci("/sys/devices/pci0000:00", "0000:00:05.0", code="020700", ids="15b3:1021")
    paper.hca(folder, "mlx5_0", gids=(f"0,{gid_local(1)},IB/RoCE v1,?",))
    text = render(paper.done())
    assert "  1..255 = 0000:0000:0000:0000:0000:0000:0000:0000\n" in text
    assert parse(text).texts == paper.tree.texts


def test_names_that_are_absurd_numbers_are_written_one_by_one() -> None:
    made = Tree()
    for name in ("5000", "5001", "5002", "007", "008", "009", "9" * 5000, "\u0661", "\u0662", "\u0663"):
        made.folder("/x")[name] = None
        made.texts[f"/x/{name}"] = "same\n"
    assert parse(render(made)).texts == made.texts


@given(st.text())
def test_every_text_survives_escaping(text: str) -> None:
    assert unescape(escape(text)) == text
    assert escape(text).replace("\t", "").isprintable()


NAME = st.text(min_size=1, max_size=12).filter(lambda name: "/" not in name and name not in (".", ".."))


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(NAME, st.text(max_size=40), max_size=6), st.binary(max_size=64), st.text(max_size=40))
def test_every_tree_survives_its_text(files: dict[str, str], blob: bytes, output: str) -> None:
    made = Tree()
    names = made.folder("/folder")
    for name, text in files.items():
        names[name] = None
        made.texts[f"/folder/{name}"] = text if not text or text.endswith("\n") else text + "\n"
    made.folder("/blobs")["blob"] = None
    made.blobs["/blobs/blob"] = blob
    made.programs[("tool", "a b")] = Collected("ok", output.replace("\n", "") + "\n")
    again = parse(render(made))
    assert again.texts == made.texts and again.blobs == made.blobs and again.programs == made.programs
    assert again.children == made.children


# --- what is kept


def test_what_nobody_needs_is_left_out() -> None:
    assert reduced("/proc/bus/pci/devices", "1b00\t10de2330\t5e\tfb000000\n") == "1b00\t10de2330\n"
    mounts = "overlay / overlay rw,lowerdir=/x 0 0\nnfs:/home /home nfs rw 0 0\n"
    assert reduced("/proc/self/mounts", mounts) == "overlay / overlay rw 0 0\n"
    assert reduced("/boot/config-6.8.0", "CONFIG_A=y\nCONFIG_PCI_P2PDMA=y\n") == "CONFIG_PCI_P2PDMA=y\n"
    assert reduced("/anything/else", "x") == "x"


def test_a_refusal_is_recorded_and_a_missing_file_is_not(tmp_path: Path) -> None:
    (tmp_path / "sys/refused").mkdir(parents=True)
    recorder = Recorder(Live(str(tmp_path)))
    assert recorder.read("/sys/refused") is None and recorder.read("/sys/missing") is None
    assert "  refused !\n" in render(recorder.tree) and "missing" not in render(recorder.tree)


def test_config_space_is_recorded_in_the_bytes_that_were_asked(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/config").write_bytes(bytes(range(256)) * 16)
    recorder = Recorder(Live(str(tmp_path)))
    assert recorder.peek("/sys/config", 0x100, 8) == bytes(range(8))
    assert recorder.peek("/sys/config", 0x148, 4) == bytes(range(0x48, 0x4C))
    again = Captured(parse(render(recorder.tree)))
    assert again.peek("/sys/config", 0x100, 8) == bytes(range(8))
    assert again.peek("/sys/config", 0, 8) == bytes(8)  # nobody asked


# --- the verb


def test_the_verb_writes_a_file_that_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = MACHINES / "hgx-h100-ib" / "tree.txt", tmp_path / "out.txt"
    assert verb.run([str(target), "--root", str(source)]) == 0
    assert "bytes" in capsys.readouterr().err
    assert shape(detect(Captured(str(target)))) == shape(detect(Captured(str(source))))
    assert os.listdir(tmp_path) == ["out.txt"]
    assert verb.run(["-", "--root", str(source), "--no-driver"]) == 0
    assert capsys.readouterr().out.startswith("rig-capture 1\n")


def test_the_verb_tells_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(MACHINES / "nothing" / "tree.txt")
    assert verb.run([str(tmp_path / "no" / "folder"), "--root", source]) == 1
    assert verb.run(["--root", str(tmp_path / "missing")]) == 64
    assert verb.run(["--root", str(tmp_path)]) == 64
    assert verb.run(["--wrong"]) == 64
    told = capsys.readouterr().err
    assert "No such file" in told and "neither sys nor proc" in told and os.listdir(tmp_path) == []


def test_a_root_is_a_folder_or_a_capture(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    assert isinstance(open_root(str(tmp_path)), Live)
    assert isinstance(open_root(str(MACHINES / "nothing" / "tree.txt")), Captured)
    (tmp_path / "bad").write_bytes(b"\xff\xfe\0")
    with pytest.raises(ValueError, match="bad:1: not a capture"):
        open_root(str(tmp_path / "bad"))


def test_addresses_are_kept_beside_the_kernels_files() -> None:
    paper = Paper()
    paper.netdev("eth0", ipv4="192.0.2.1/24")
    assert Captured(paper.done()).ipv4() == "eth0 192.0.2.1/24\n" == paper.tree.texts[IPV4_FILE]

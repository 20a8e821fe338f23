"""Limits, control groups, surroundings, kernel gates, libraries, processors: one kernel text at a time."""

import zlib

import pytest

from rig.captured import Captured
from rig.detect import detect, kernel, libraries, numa, surroundings
from rig.text import parse_status
from tests.machines.paper import Paper


@pytest.mark.parametrize(
    ("marks", "container"),
    [
        ({}, None),
        ({"/.dockerenv": ""}, "docker"),
        ({"/run/.containerenv": ""}, "podman"),
        ({"/proc/self/cgroup": "0::/docker/0001\n"}, "docker"),
        ({"/proc/self/cgroup": "0::/kubepods.slice/x\n"}, "kubernetes"),
        ({"/run/secrets/kubernetes.io/x": "", "/.dockerenv": ""}, "kubernetes"),
        ({"/run/systemd/container": "lxc\n"}, "lxc"),
        ({"/proc/self/mounts": "overlay / overlay rw 0 0\n"}, "other"),
        ({"/proc/self/mounts": "/dev/sda1 / ext4 rw 0 0\noverlay /x overlay rw 0 0\n"}, None),
        ({"/proc/self/cgroup": "0::/slurm/uid_0/job_1\n"}, None),
    ],
)
def test_containers(marks: dict[str, str], container: str | None) -> None:
    paper = Paper()
    for path, text in marks.items():
        paper.file(path, *text.splitlines())
    assert surroundings.read_container(Captured(paper.done())) == container


@pytest.mark.parametrize(
    ("dmi", "flag", "cloud", "virtual", "instance"),
    [
        (("Amazon EC2", "p5.48xlarge", "Amazon EC2"), True, "aws", "kvm", "p5.48xlarge"),
        (("Amazon EC2", "p5.metal", "Amazon EC2"), False, "aws", None, "p5.metal"),
        (
            ("Microsoft Corporation", "Virtual Machine", "7783-7084-3265-9085-8269-3286-77"),
            True,
            "azure",
            "hyperv",
            None,
        ),
        (("Microsoft Corporation", "Virtual Machine", "x"), True, None, "hyperv", None),
        (("QEMU", "Standard PC (i440FX + PIIX, 1996)", "OracleCloud.com"), True, "oci", "kvm", None),
        (("Google", "Google Compute Engine", ""), True, "gcp", "kvm", None),
        (("Alibaba Cloud", "Alibaba Cloud ECS", ""), True, "alibaba", "kvm", "Alibaba Cloud ECS"),
        (("Supermicro", "SYS-821GE-TNHR", "x"), False, None, None, None),
        (("QEMU", "x", ""), None, None, "kvm", None),
        (("\0\1", "", ""), True, None, "unknown", None),
    ],
)
def test_clouds(
    dmi: tuple[str, str, str], flag: bool | None, cloud: str | None, virtual: str | None, instance: str | None
) -> None:
    paper = Paper()
    paper.dmi(*dmi)
    found = surroundings.read_surroundings(Captured(paper.done()), {}, flag, None)
    assert (found.cloud, found.virtual, found.instance) == (cloud, virtual, instance)


def test_capabilities_have_names() -> None:
    assert surroundings.parse_capabilities("0000000000004001") == ("CAP_CHOWN", "CAP_IPC_LOCK")
    everything = surroundings.parse_capabilities("000001ffffffffff")
    assert everything is not None and len(everything) == 41 and everything[21] == "CAP_SYS_ADMIN"
    assert surroundings.parse_capabilities("zz") is None is surroundings.parse_capabilities(None)


def test_the_effective_user_counts() -> None:
    status = parse_status("Name:\tx\nUid:\t0\t1000\t0\t0\n")
    assert surroundings.read_surroundings(Captured(Paper().done()), status, None, None).uid == 1000


# --- kernel


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("5.15.0-1042-azure\n", (5, 15)),
        ("6.8", (6, 8)),
        ("3.10.0-1160.el7", (3, 10)),
        ("next", None),
        ("6.", None),
        ("", None),
        (None, None),
        ("9" * 70 + ".1", None),
    ],
)
def test_releases(text: str | None, release: tuple[int, int] | None) -> None:
    assert kernel.parse_release(text) == release


@pytest.mark.parametrize(
    ("release", "drivers", "module", "answer"),
    [
        ("5.15.0", ("mlx5_core",), None, True),
        ("5.4.0", ("mlx5_core",), None, False),
        ("5.4.0", ("mlx5_core",), "5.8-3.0.7", None),
        ("5.15.0", ("efa",), None, False),
        ("5.16.1", ("efa",), None, True),
        ("6.8.0", ("irdma",), None, None),
        ("6.8.0", (), None, None),
        (None, ("mlx5_core",), None, None),
        ("5.15.0", ("mlx5_core", "efa"), None, False),
    ],
)
def test_dmabuf_of_the_nic(
    release: str | None, drivers: tuple[str, ...], module: str | None, answer: bool | None
) -> None:
    assert kernel.nic_dmabuf(release, drivers, module) is answer


@pytest.mark.parametrize(
    ("driver", "open_modules", "answer"),
    [
        ("550.54.15", True, True),
        ("550.54.15", False, False),
        ("470.1", True, False),
        (None, None, None),
        ("x", True, None),
    ],
)
def test_dmabuf_of_the_gpu(driver: str | None, open_modules: bool | None, answer: bool | None) -> None:
    assert kernel.gpu_dmabuf(driver, open_modules) is answer


def test_p2pdma_is_read_from_the_boot_folder_else_from_the_running_kernel() -> None:
    paper = Paper()
    text = "# CONFIG_PCI_P2PDMA is not set\nCONFIG_PCI=y\n"
    paper.tree.blobs["/proc/config.gz"] = zlib.compress(text.encode(), wbits=31)
    paper.names("/proc", "config.gz")
    assert kernel.read_p2pdma(Captured(paper.tree), "6.8.0") is False
    paper.file("/boot/config-6.8.0", "CONFIG_PCI_P2PDMA=y")
    assert kernel.read_p2pdma(Captured(paper.tree), "6.8.0") is True
    paper.tree.blobs["/proc/config.gz"] = b"\x1f\x8bgarbage"
    assert kernel.read_p2pdma(Captured(paper.tree), None) is None
    assert kernel.read_p2pdma(Captured(Paper().tree), None) is None


def test_memory_peers_absent_and_empty_differ() -> None:
    paper = Paper()
    gates = kernel.read_kernel(Captured(paper.tree), (None, None), (), None)
    assert (gates.memory_peers, gates.nvidia_peermem, gates.modules) == (None, None, None)
    paper.tree.folder("/sys/kernel/mm/memory_peers")
    paper.names("/sys/module", "mlx5_core", "snd")
    gates = kernel.read_kernel(Captured(paper.tree), (None, None), (), None)
    assert (gates.memory_peers, gates.nvidia_peermem, gates.modules) == ((), False, ("mlx5_core",))
    paper.names("/sys/kernel/mm/memory_peers", "nv_mem")
    paper.file("/sys/module/nvidia_peermem/version", "1")
    gates = kernel.read_kernel(Captured(paper.tree), (None, None), (), None)
    assert (gates.memory_peers, gates.nvidia_peermem) == (("nv_mem",), True)


def test_only_words_about_pci_and_the_iommu_are_kept_of_the_command_line() -> None:
    line = "root=UUID=secret intel_iommu=on iommu=pt pci=noacs password=x"
    assert kernel.parse_cmdline(line) == "intel_iommu=on iommu=pt pci=noacs"
    assert kernel.parse_cmdline(None) is None


# --- libraries


def test_the_libraries_of_our_image() -> None:
    paper = Paper()
    paper.image("2.21.5", providers=("mlx5", "efa"), plugin="/opt/amazon/ofi-nccl/lib")
    found = libraries.read_libraries(Captured(paper.done()))
    assert found.nccl_path is not None and found.nccl_path.startswith("/opt/venv/")
    assert (found.nccl_version, found.cuda, found.libibverbs) == ((2, 21, 5), (12, 1), True)
    assert (found.ib_providers, found.net_plugins) == (("efa", "mlx5"), ("/opt/amazon/ofi-nccl/lib/libnccl-net.so",))


def test_a_distribution_names_the_version_in_the_link() -> None:
    paper = Paper()
    folder = "/usr/lib/x86_64-linux-gnu"
    paper.link(f"{folder}/libnccl.so.2", f"{folder}/libnccl.so.2.18.3")
    paper.names(folder, "libnccl.so.2.18.3")
    found = libraries.read_libraries(Captured(paper.done()))
    assert (found.nccl_path, found.nccl_version) == (f"{folder}/libnccl.so.2", (2, 18, 3))


def test_an_image_without_libraries() -> None:
    found = libraries.read_libraries(Captured(Paper().done()))
    assert found == (None, None, False, None, (), None)


def test_folders_of_the_linker_count() -> None:
    paper = Paper()
    paper.file("/etc/ld.so.conf.d/efa.conf", "# comment", "/opt/amazon/efa/lib", "include x")
    paper.names("/opt/amazon/efa/lib", "libibverbs.so.1")
    assert libraries.read_libraries(Captured(paper.done())).libibverbs is True


@pytest.mark.parametrize("text", ["2.21", "two.1.2", "", "2.21.-1", "2..1"])
def test_what_is_no_version_is_unknown(text: str) -> None:
    assert libraries.parse_version(text) is None


# --- processors


@pytest.mark.parametrize(
    ("text", "cpu"),
    [
        ("cpu:type:x86,ven0000fam0006mod008F:feature:,0000,009F,00A0\n", ("x86_64", "Intel", True)),
        ("cpu:type:x86,ven0002fam0019mod0001:feature:,0000,0001\n", ("x86_64", "AMD", False)),
        ("cpu:type:x86,ven000Afam0007mod003B:feature:,0000\n", ("x86_64", "Zhaoxin", False)),
        ("cpu:type:aarch64:feature:,0000\n", ("aarch64", None, None)),
        ("cpu:type:x86,venZZZZ:feature:", ("x86_64", None, False)),
        ("garbage", (None, None, None)),
        (None, (None, None, None)),
    ],
)
def test_modalias(text: str | None, cpu: tuple[str | None, str | None, bool | None]) -> None:
    assert numa.parse_modalias(text) == cpu


def test_cpuinfo_where_there_is_no_modalias() -> None:
    text = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7742\nflags\t\t: fpu hypervisor\n\n"
    assert numa.parse_cpuinfo(text) == ("x86_64", "AMD", "AMD EPYC 7742", True)
    assert numa.parse_cpuinfo("CPU implementer\t: 0x41\n") == ("aarch64", "Arm", None, None)
    assert numa.parse_cpuinfo("CPU implementer\t: 0xzz\n") == ("aarch64", None, None, None)
    assert numa.parse_cpuinfo("") == (None, None, None, None)


def test_an_arm_core_names_its_maker() -> None:
    assert numa.parse_midr("0x00000000410fd4f0\n") == "Arm"
    assert numa.parse_midr("0x000000004e0f0040\n") == "Nvidia"
    assert numa.parse_midr("junk") is None


def test_nodes_have_cpus_and_memory() -> None:
    paper = Paper()
    paper.nodes(("0-3", "4-7"), 16)
    paper.names("/sys/devices/system/node", "online", "node-1", "nodeX")
    paper.file("/sys/devices/system/node/node2/cpulist", "8-\0")
    found = numa.read_nodes(Captured(paper.done()))
    assert [(node.index, node.cpus, node.memory_bytes) for node in found] == [
        (0, "0-3", 8 << 30),
        (1, "4-7", 8 << 30),
        (2, None, None),
    ]


def test_a_machine_without_any_file_is_all_unknown() -> None:
    machine = detect(Captured(Paper().tree))
    assert machine.gpus == machine.hcas == machine.netdevs == machine.pci == machine.numa == ()
    assert machine.nvml is None and machine.kernel.release is None and machine.surroundings.uid is None

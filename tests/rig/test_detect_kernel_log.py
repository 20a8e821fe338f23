"""The kernel's log: lines of several generations of drivers and kernels, and garbage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.captured import Captured, Tree
from rig.detect.kernel_log import DMESG_END, EACH_AT_MOST, JOURNAL, event, parse, read_kernel_log, split
from rig.host import KernelEvent
from rig.root import READ_LIMIT, Collected
from rig.xid import explain, recovery_of

FELL = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


def told(text: str, *argv: str, state: str = "ok") -> Captured:
    tree = Tree()
    tree.programs[argv or ("dmesg", "--kernel")] = Collected(state, text)
    return Captured(tree)


def filed(path: str, text: str) -> Captured:
    tree = Tree()
    folder, _, name = path.rpartition("/")
    tree.folder(folder)[name] = None
    tree.texts[path] = text
    return Captured(tree)


@pytest.mark.parametrize(
    ("text", "code", "bus"),
    [
        ("NVRM: Xid (0000:02:00): 13, 0001 00000000 0000a0c0 00001b0c 00000000", 13, "0000:02:00.0"),
        (FELL, 79, "0000:3b:00.0"),
        ("NVRM: Xid (PCI:0000:05:00): 31, Ch 0000000b, engmask 00000120, intr 10000000", 31, "0000:05:00.0"),
        ("NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp", 13, "0000:cb:00.0"),
        ("NVRM: Xid (PCI:0000:86:00): 43, pid=4242, name=python3, Ch 00000010", 43, "0000:86:00.0"),
        ("NVRM: Xid (PCI:0001:00:00 GPU-I:05): 94, pid=7, name=python, Contained", 94, "0001:00:00.0"),
        ("NVRM: Xid (PCI:0000:07:00): 119, pid=9, name=nvidia-smi, Timeout after 6s of waiting", 119, "0000:07:00.0"),
        ("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08", 149, "0018:01:00.0"),
    ],
)
def test_xids_of_every_driver(text: str, code: int, bus: str) -> None:
    assert event(text) == KernelEvent("xid", text, code=code, bus_id=bus)


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        "nvidia-nvswitch1 SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30",
    ],
)
def test_sxids(text: str) -> None:
    assert event(text) == KernelEvent("sxid", text, code=20034, bus_id="0000:c1:00.0")


@pytest.mark.parametrize(
    ("text", "kind", "bus", "subject"),
    [
        (
            "mlx5_core 0000:9b:00.0: 126.016 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x16 link at "
            "0000:9a:00.0 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)",
            "pcie-limited",
            "0000:9b:00.0",
            None,
        ),
        ("pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0", "aer", "0000:01:00.0", "corrected"),
        (
            "pcieport 0000:00:01.0: AER: Multiple Uncorrected (Non-Fatal) error received: 0000:01:00.0",
            "aer",
            "0000:01:00.0",
            "nonfatal",
        ),
        (
            "pcieport 0000:00:01.0: AER: Uncorrectable (Fatal) error message received from 0000:3b:00.0",
            "aer",
            "0000:3b:00.0",
            "fatal",
        ),
        (
            "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
            "aer",
            "0000:3b:00.0",
            "fatal",
        ),
        ("mlx5_core 0000:9b:00.0 ens1f0np0: Link down", "link-lost", "0000:9b:00.0", "ens1f0np0"),
        ("mlx4_core 0000:04:00.0: Port 1 Link down", "link-lost", "0000:04:00.0", None),
        ("bnxt_en 0000:19:00.0 eth0: NIC Link is Down", "link-lost", "0000:19:00.0", "eth0"),
        (
            "mlx5_core 0000:9b:00.0: Port module event: module 0, Cable unplugged",
            "link-lost",
            "0000:9b:00.0",
            None,
        ),
        ("bond0: (slave ens1f0): link status definitely down, disabling slave", "link-lost", None, "ens1f0"),
        ("Out of memory: Killed process 421 (python3) total-vm:9kB, anon-rss:8kB", "oom", None, "python3"),
        ("Memory cgroup out of memory: Killed process 421 (pt_main) total-vm:9kB", "oom", None, "pt_main"),
        ("Killed process 421 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB", "oom", None, "python"),
        ("INFO: task nvidia-smi:77 blocked for more than 120 seconds.", "hung-task", None, "nvidia-smi"),
        ("INFO: task kworker/0:1:77 blocked in I/O wait for more than 122 seconds.", "hung-task", None, "kworker/0:1"),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:421]", "hung-task", None, "python"),
        ("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1474)", "nvrm", "0000:3b:00.0", None),
        ("NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:", "nvrm", None, None),
        ("NVRM: API mismatch: the client has the version 550.1, but", "nvrm", None, None),
    ],
)
def test_what_else_matters(text: str, kind: str, bus: str | None, subject: str | None) -> None:
    assert event(text) == KernelEvent(kind, text, bus_id=bus, subject=subject)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: GPU at PCI:0000:3b:00: GPU-00000000-0000-0000-0000-000000000000",
        "NVRM: nvCheckOkFailedNoLog: Check failed: Call not supported [NV_ERR_NOT_SUPPORTED] (0x00000056)",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03",
        "NVRM: Xid (PCI:0000:3b:00): abc",
        "mlx5_core 0000:9b:00.0 ens1f0np0: Link up",
        "mlx5_core 0000:9b:00.0: 252.048 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x8 link)",
        "docker0: port 1(veth0) entered disabled state",
        "pcieport 0000:00:01.0: AER: enabled with IRQ 30",
        "oom_reaper: reaped process 421 (python3), now anon-rss:0kB",
        "",
    ],
)
def test_what_does_not_matter(text: str) -> None:
    assert event(text) is None


@pytest.mark.parametrize(
    ("line", "syslog", "at_s"),
    [
        (f"[12492.012351] {FELL}", False, 12492.012351),
        (f"[    7.000000] [ T1234] {FELL}", False, 7.0),
        (f"[    7.000000][    C3] {FELL}", False, 7.0),
        (f"<3>[    7.000000] {FELL}", False, 7.0),
        (f"[    7.000000] node-1 kernel: {FELL}", False, 7.0),
        (f"3,1234,7000000,-;{FELL}", False, 7.0),
        (FELL, False, None),
        (f"Dec  1 02:03:04 node-1 kernel: [    7.000000] {FELL}", True, 7.0),
        (f"2026-12-01T02:03:04.123456+00:00 node-1 kernel: {FELL}", True, None),
    ],
)
def test_every_form_of_a_line(line: str, syslog: bool, at_s: float | None) -> None:
    assert split(line, syslog) == (at_s, FELL)
    assert [(one.code, one.at_s) for one in parse(line, syslog)] == [(79, at_s)]


def test_only_the_kernel_speaks_in_a_log_file() -> None:
    assert parse(f"Dec  1 02:03:04 node-1 evil[7]: {FELL}\n", syslog=True) == ()


def test_a_burst_is_one_event() -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 45, pid=7, name=python, Ch {}"
    burst = "".join(f"[{100 + part / 10:.6f}] {line.format(part)}\n" for part in range(40))
    later = f"[200.000000] {line.format(0)}\n"
    other = f"[100.500000] {line.format(0).replace('3b', '5e')}\n"
    found = parse(burst + later + other)
    assert [(one.at_s, one.bus_id) for one in found] == [
        (103.9, "0000:3b:00.0"),
        (200.0, "0000:3b:00.0"),
        (100.5, "0000:5e:00.0"),
    ]
    assert len(parse(f"{FELL}\n{FELL}\n")) == 1


def test_a_flood_is_cut_to_its_newest() -> None:
    found = parse("".join(f"[{at}.000000] {FELL}\n" for at in range(0, 10000, 10)))
    assert len(found) == EACH_AT_MOST and found[-1].at_s == 9990.0


def test_the_last_word_on_what_to_do_counts() -> None:
    line = "[7.{}] NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to {}\n"
    found = parse(
        line.format("100000", "0x1 (GPU Reset Required)") + line.format("200000", "0x2 (Node Reboot Required)")
    )
    assert [recovery_of(one.text) for one in found] == ["reboot"]


@pytest.mark.parametrize(
    ("after", "left"),
    [
        ("nvidia 0000:3b:00.0: reset done", ["0000:5e:00.0", None]),
        ("nvidia 0000:3b:00.0: resetting", ["0000:3b:00.0", "0000:5e:00.0", None]),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.54.15", [None]),
        ("Linux version 6.8.0-45-generic (build@host) #45 SMP", []),
    ],
)
def test_what_is_over_is_forgotten(after: str, left: list[str | None]) -> None:
    oom = "Out of memory: Killed process 421 (python3) total-vm:9kB"
    log = "\n".join(f"[7.000000] {text}" for text in (FELL, FELL.replace("3b", "5e"), oom, after))
    assert [one.bus_id for one in parse(log)] == left


def test_what_cannot_be_read_is_unknown() -> None:
    assert read_kernel_log(Captured(Tree())) is None
    assert read_kernel_log(told("", state="failed")) is None
    assert read_kernel_log(told("\n")) is None
    assert read_kernel_log(told("[ 0.000000] Starting gVisor...\n")) is None


@pytest.mark.parametrize("argv", [("dmesg", "--kernel"), ("dmesg",), JOURNAL])
def test_every_program_is_asked(argv: tuple[str, ...]) -> None:
    found = read_kernel_log(told(f"[7.000000] {FELL}\n", *argv))
    assert found is not None and found[0].code == 79


def test_a_quiet_log_is_known_to_be_quiet() -> None:
    assert read_kernel_log(told("[0.000000] Linux version 6.8\n")) == ()


def test_a_log_that_is_too_long_is_read_from_its_end() -> None:
    root = told("[1.000000] filler\n" * (READ_LIMIT // 18), state="hung")
    root.tree.programs[DMESG_END] = Collected("ok", f"[9.000000] {FELL}\n")
    found = read_kernel_log(root)
    assert found is not None and [one.at_s for one in found] == [9.0]


def test_a_log_file_is_cut_to_this_boot() -> None:
    head = "Dec  1 02:03:04 node-1 kernel: "
    log = f"{head}{FELL}\n{head}[    0.000000] Linux version 6.8.0\n{head}{FELL.replace('79', '48')}\n"
    found = read_kernel_log(filed("/var/log/kern.log", log))
    assert found is not None and [one.code for one in found] == [48]
    assert read_kernel_log(filed("/var/log/syslog", "Dec  1 02:03:04 node-1 sshd[7]: hello\n")) is None
    assert read_kernel_log(filed("/var/log/dmesg", f"[7.000000] {FELL}\n")) is None


PIECES = st.sampled_from(
    [
        "NVRM: Xid (PCI:",
        "0000:3b:00",
        "): 79",
        "[1.0] ",
        "AER: ",
        "Link down",
        "\n",
        "Killed process 1 (",
        ")",
        "reset done",
    ]
)


@given(st.lists(PIECES | st.text(max_size=12), max_size=20).map("".join), st.booleans())
def test_garbage_is_survived(text: str, syslog: bool) -> None:
    for one in parse(text, syslog):
        assert one.text.isprintable() and len(one.text) <= 240
        assert one.kind in ("xid", "sxid", "pcie-limited", "link-lost", "aer", "oom", "nvrm", "hung-task")
        if one.kind == "xid" and one.code is not None:
            assert explain(one.code, one.text).code == one.code

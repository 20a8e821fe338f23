"""The text of a capture, and the Root over it: what every tree and every text survives."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rig.capture_text import escape, render
from rig.captured import Captured, Tree, parse, unescape
from rig.root import Collected, Space
from tests.machines.gids import gid_local
from tests.machines.paper import Paper


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
        ("rig-capture 1\n/a\n  b % 1", "tree.txt:3: a mount is `NAME % BYTES FREE`"),
        ("rig-capture 1\n/a\n  b =x", "tree.txt:3: a binary file begins with its size"),
        ("rig-capture 1\n/a\n  b =x 8 zz:00", "tree.txt:3: bytes of a binary file are OFFSET:BYTES"),
        ("rig-capture 1\n/a\n  b =x 8 0:0", "tree.txt:3: bytes of a binary file are OFFSET:BYTES"),
        ("rig-capture 1\n/a\n  b =x 8 -1:00", "tree.txt:3: bytes of a binary file are OFFSET:BYTES"),
        (f"rig-capture 1\n/a\n  b =x {'9' * 5000}", "tree.txt:3: a binary file begins with its size"),
        (f"rig-capture 1\n/a\n  b =x 8 {'f' * 5000}:00", "tree.txt:3: ffff"),
        (f"rig-capture 1\n/a\n  0..{'9' * 5000} = x", "tree.txt:3: 0..99"),
        ("rig-capture 1\n" + "/a" * 3000, "tree.txt:2: the path is too deep"),
        ("rig-capture 1\n$ ", "tree.txt:2: a program is"),
        ("rig-capture 1\n$ maybe x", "tree.txt:2: "),
        ("rig-capture 1\n\n# c\n/a\n  b |\n    x\nend", "tree.txt:7: "),
    ],
)  # fmt: skip
def test_what_is_no_capture_is_refused_with_its_line(lines: str, where: str) -> None:
    told = broken(lines)
    assert told.startswith(where) and len(told) < 200
    assert not any(word in told for word in ("base 10", "unpack", "fromhex", "recursion"))  # Python's own


def test_a_mount_of_which_the_kernel_tells_nonsense_is_kept() -> None:
    tree = parse("rig-capture 1\n/dev\n  shm % -9223372036854775808 -1\n")
    assert tree.spaces == {"/dev/shm": Space(-(1 << 63), -1)}


@pytest.mark.parametrize("line", ["  0..4095 =x 65536", f"  0..4095 = {'x' * (1 << 18)}"], ids=["blobs", "texts"])
def test_a_short_text_that_stands_for_too_much_is_refused(line: str) -> None:
    assert broken(f"rig-capture 1\n/a\n{line}\n").startswith("tree.txt:3: up to here it stands for more than 256 MiB")


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

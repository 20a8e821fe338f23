"""A machine on paper: the text that `rig capture` writes, and a Root over it.

The text is a small file system. A line that starts with `/` names a folder, indented lines tell what is in it:

    /sys/class/infiniband                      a folder
      mlx5_0 -> /sys/devices/pci0000:17/...    a symbolic link
      state = 4: ACTIVE                        a file of one line
      limits |                                 a file of more lines; they follow, four blanks before each
      4..255 = 0000:0000:...                   files 4 to 255, all the same
      types !                                  exists, but the kernel refuses to read it
      uverbs0 @ opens                          a device node that opens (or `refuses`)
      shm % 67108864 67000000                  a mount: bytes in all, bytes free
      config =x 4096 100:0d000100 104:0f00     a binary file: size, then bytes at hexadecimal offsets, zeros between
      + a b c                                  names of which nothing more is known
    $ ok rig-nvml                              how a program ended (ok, failed, hung); its output follows as a file's

The first line is `rig-capture 1`; `#` begins a comment line. `\\\\`, `\\xNN`, `\\uNNNN` and `\\UNNNNNNNN` stand for
characters that would not show.
"""

import os

from rig.capture_words import HEX, expand, parse_blob, whole
from rig.lean import Callable
from rig.regular import read_regular
from rig.root import IPV4_FILE, READ_LIMIT, Answered, Collected, Live, Root, Running, Space

HEADER = "rig-capture 1"
AT_MOST = 16 << 20  # bytes of a file with one; that of a host with eight GPUs has less than 1 MiB
DEEP = 200  # folders above one another
ROOM = 256 << 20  # bytes of what a capture may stand for: a short line can name 4096 files of 64 KiB
PER_FILE = 64
ENDINGS = ("ok", "failed", "hung")


class Tree:
    """Answers by canonical path (no link on the way). `children` knows every folder and every name in it; the root
    folder is ""."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.blobs: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.refused: dict[str, None] = {}
        self.opens: dict[str, bool] = {}
        self.spaces: dict[str, Space] = {}
        self.children: dict[str, dict[str, None]] = {"": {}}
        self.programs: dict[tuple[str, ...], Collected] = {}
        self.room = ROOM

    def spend(self, amount: int) -> None:
        """Take room for what a text describes; ValueError where none is left."""
        self.room -= amount
        if self.room < 0:
            raise ValueError(f"up to here it stands for more than {ROOM >> 20} MiB, and no machine has so much")

    def folder(self, path: str) -> dict[str, None]:
        """The names in a folder; a new one is made, with all above it."""
        names = self.children.get(path)
        if names is None:
            above, _, name = path.rpartition("/")
            self.folder(above)[name] = None
            names = self.children[path] = {}
        return names


def unescape(text: str) -> str:
    """Undo the escapes of a capture; a backslash that begins none stays as it is."""
    if "\\" not in text:
        return text
    made, at = "", 0
    while at < len(text):
        step = {"\\": 2, "x": 4, "u": 6, "U": 10}.get(text[at + 1 : at + 2], 0) if text[at] == "\\" else 0
        code = text[at + 2 : at + step]
        if step == 2:
            made += "\\"
        elif step and len(code) == step - 2 and not code.strip(HEX) and int(code, 16) < 0x110000:
            made += chr(int(code, 16))
        else:
            made, step = made + text[at], 1
        at += step
    return made


def _path(text: str) -> str:
    path = os.path.normpath(text)
    if path.count("/") > DEEP:
        raise ValueError("the path is too deep")
    return path


def _place(tree: Tree, path: str, sign: str, value: str) -> None:
    """Put one entry into the tree; ValueError when it is none."""
    if sign == "=":
        tree.texts[path] = unescape(value) + "\n"
    elif sign == "->":
        tree.links[path] = _path(os.path.join(path.rpartition("/")[0] or "/", unescape(value)))
    elif sign == "!":
        tree.refused[path] = None
    elif sign == "@" and value in ("opens", "refuses"):
        tree.opens[path] = value == "opens"
    elif sign == "%":
        total, _, free = value.partition(" ")
        if any(whole(word.removeprefix("-")) is None for word in (total, free)):  # a kernel may well say -1
            raise ValueError(f"a mount is `NAME % BYTES FREE`, two whole numbers; here is {value!r:.40}")
        tree.spaces[path] = Space(int(total), int(free))
        tree.folder(path)
    elif sign == "=x":
        tree.blobs[path] = parse_blob(value)
        tree.spend(len(tree.blobs[path]))
    else:
        raise ValueError(f"unknown entry {sign!r:.40}")


def _block(tree: Tree, folder: str, text: str) -> Callable[[list[str]], None] | None:
    """Take an entry or a program; what is to be done with the lines that follow, if lines may follow."""
    if text.startswith("$ "):
        ending, *words = text[2:].split() or [""]
        if ending not in ENDINGS or not words:
            raise ValueError("a program is `$ ok|failed|hung NAME ARGUMENTS`")
        argv = tuple(map(unescape, words))
        return lambda lines: tree.programs.update({argv: Collected(ending, "".join(lines))})
    names = tree.children[folder]
    if text.startswith("  + "):
        names.update(dict.fromkeys(map(unescape, text[4:].split())))
        return None
    name, _, rest = text[2:].partition(" ")
    sign, _, value = rest.partition(" ")
    plain = unescape(name)
    for one in expand(name) if ".." in name else (plain,):
        if not one or "/" in one or one in (".", ".."):
            raise ValueError(f"{one!r} is no file name")
        names[one] = None
        tree.spend(PER_FILE + len(value))
        if sign != "|":
            _place(tree, f"{folder}/{one}", sign, value)
    return (lambda lines: tree.texts.update({f"{folder}/{plain}": "".join(lines)})) if sign == "|" else None


def parse(text: str, name: str = "capture") -> Tree:
    """The tree that a capture's text describes. ValueError (`FILE:LINE: what is wrong`) when it is none."""
    tree = Tree()
    lines = text.split("\n")
    if lines[0].strip() != HEADER:
        raise ValueError(f"{name}:1: not a capture: the first line is not {HEADER!r}")
    folder = ""
    finish: Callable[[list[str]], None] | None = None
    block: list[str] = []
    for number, entry in enumerate(lines):
        if finish is not None:
            if entry[:4] == "    ":
                block.append(unescape(entry[4:]) + "\n")
                continue
            finish(block)
            finish, block = None, []
        if number == 0 or not entry.strip() or entry[0] == "#":
            continue
        try:
            if entry[0] == "/":
                folder = _path("/" + unescape(entry).strip().strip("/")).rstrip("/")
                tree.folder(folder)
            elif entry[:2] in ("  ", "$ "):
                finish = _block(tree, folder, entry)
            else:
                raise ValueError("neither a folder, an entry, a program nor a comment")
        except ValueError as error:
            raise ValueError(f"{name}:{number + 1}: {error}") from None
    if finish is not None:
        finish(block)
    return tree


class Captured:
    """A Root over a Tree. Links are followed as the kernel follows them; a circle of links leads nowhere."""

    def __init__(self, source: str | Tree) -> None:
        """`source` is the path of a capture, or a tree. ValueError, in one line with the file, when it cannot be read,
        is no regular file, is larger than AT_MOST, or is no capture."""
        if isinstance(source, str):
            source = parse(read_regular(source, AT_MOST, "replace"), source)
        self.tree = source
        self.known: dict[str, str | None] = {"": ""}
        self._unite()

    def _unite(self) -> None:
        """Entries under a folder's path that passes through a link belong to the folder behind the link."""
        tree = self.tree
        for path in [path for path in tree.children if path in tree.links]:
            for below in [name for name in tree.children if name == path or name.startswith(path + "/")]:
                self._move(below, tree.links[path] + below[len(path) :])

    def _move(self, old: str, new: str) -> None:
        tree = self.tree
        names = tree.folder(new)
        for name in tree.children.pop(old):
            names[name] = None
            for table in (tree.texts, tree.blobs, tree.links, tree.refused, tree.opens, tree.spaces):
                answers: dict[str, object] = table  # type: ignore[assignment]
                if f"{old}/{name}" in answers:
                    answers[f"{new}/{name}"] = answers.pop(f"{old}/{name}")

    def real(self, path: str) -> str | None:
        """The canonical path ("" for the root folder); None when it does not exist."""
        known = self.known
        if path in known:
            return known[path]
        if path in self.tree.children:  # its keys are canonical
            known[path] = path
            return path
        known[path] = None  # what a circle of links finds
        above, _, name = path.rpartition("/")
        try:
            folder = self.real(above)
        except RecursionError:
            return None
        if folder is None or name not in self.tree.children.get(folder, ()):
            return None
        full = f"{folder}/{name}"
        target = self.tree.links.get(full)
        known[path] = full if target is None else self.real(target.rstrip("/"))
        return known[path]

    def _file(self, path: str) -> str | None:
        """The canonical path of a file; unlike `real` it keeps nothing, for each file is asked once."""
        above, _, name = path.rpartition("/")
        folder = self.known[above] if above in self.known else self.real(above)
        if folder is None:
            return None
        full = f"{folder}/{name}"
        return self.real(path) if full in self.tree.links else full

    def read(self, path: str) -> str | None:
        full = self._file(path)
        return None if full is None else self.tree.texts.get(full)

    def ls(self, path: str) -> list[str]:
        full = self.real(path.rstrip("/"))
        return [] if full is None else sorted(self.tree.children.get(full, ()))

    def link(self, path: str) -> str | None:
        full = self.real(path.rstrip("/"))
        return "/" if full == "" else full

    def opens(self, path: str) -> bool | None:
        full = self.real(path)
        return None if full is None else self.tree.opens.get(full)

    def space(self, path: str) -> Space | None:
        full = self.real(path)
        return None if full is None else self.tree.spaces.get(full)

    def run(self, argv: tuple[str, ...], timeout_s: float) -> str | None:
        told = self.tree.programs.get(argv)
        return told.output if told is not None and told.state == "ok" else None

    def start(self, argv: tuple[str, ...], timeout_s: float) -> Running:
        return Answered(self.tree.programs.get(argv, Collected("unasked")))

    def peek(self, path: str, offset: int, size: int) -> bytes | None:
        full = self._file(path)
        if full is None:
            return None
        blob = self.tree.blobs.get(full)
        if blob is None and full in self.tree.texts:
            blob = self.tree.texts[full].encode("utf-8", "replace")
        return None if blob is None else blob[offset : offset + min(size, READ_LIMIT)]

    def ipv4(self) -> str | None:
        return self.read(IPV4_FILE)


def open_root(path: str) -> Root:
    """A folder laid out like a machine, or a capture. ValueError (one line) when it is neither."""
    if os.path.isdir(path):
        if not any(os.path.isdir(os.path.join(path, name)) for name in ("sys", "proc")):
            raise ValueError(f"{path}: neither sys nor proc is in this folder")
        return Live(os.path.abspath(path))
    return Captured(path)

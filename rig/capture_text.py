"""A tree as the text of a capture, in the format of rig.captured: sorted, so that two captures compare by eye."""

from rig.capture_words import RANGE_AT_MOST
from rig.captured import HEADER, Tree
from rig.lean import Iterable

LINE = 110  # longest `+` line
RUN_AT_LEAST = 3  # files with numbers for names and the same text, from which they are written as one range


def escape(text: str) -> str:
    """Backslashes, and characters that would not show, as `unescape` reads them; tabs stay."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(map(_escape_one, text))


def _escape_one(letter: str) -> str:
    if letter == "\\":
        return "\\\\"
    if letter == "\t" or letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _name(name: str) -> str:
    plain = escape(name).replace(" ", "\\x20").replace("\t", "\\x09").replace("..", ".\\x2e")
    return "\\x2b" + plain[1:] if plain.startswith("+") else plain


def _value(text: str) -> str:
    plain = escape(text)
    return plain[:-1] + "\\x20" if plain.endswith(" ") else plain


def _text_lines(name: str, text: str) -> list[str]:
    if text.endswith("\n") and text.count("\n") == 1:
        return [f"  {name} = {_value(text[:-1])}"]
    return [f"  {name} |", *(f"    {_value(entry)}" for entry in text.removesuffix("\n").split("\n") if text)]


def _blob_line(name: str, blob: bytes) -> str:
    words = [f"{at:x}:{blob[at : at + 4].hex()}" for at in range(0, len(blob), 4) if any(blob[at : at + 4])]
    return " ".join((f"  {name} =x {len(blob)}", *words))


def _runs(tree: Tree, folder: str, names: list[str]) -> dict[str, str]:
    """First name -> last name of each run of numbered files with the same text."""
    runs: dict[str, str] = {}
    short = [name for name in names if len(name) < 5 and name.isascii() and name.isdecimal()]
    numbers = sorted(int(name) for name in short if str(int(name)) == name and int(name) < RANGE_AT_MOST)
    start = None
    for number in numbers:
        text = tree.texts.get(f"{folder}/{number}")
        if start is not None and number == int(runs[start]) + 1 and text == tree.texts.get(f"{folder}/{start}"):
            runs[start] = str(number)
        elif text is not None:
            start = str(number)
            runs[start] = start
        else:
            start = None
    return {first: last for first, last in runs.items() if int(last) - int(first) + 1 >= RUN_AT_LEAST}


def _entry(tree: Tree, path: str, name: str) -> list[str]:
    """The lines for one name; none where nothing is known but that it exists."""
    if path in tree.links:
        return [f"  {name} -> {_value(tree.links[path])}"]
    if path in tree.opens:
        return [f"  {name} @ {'opens' if tree.opens[path] else 'refuses'}"]
    if path in tree.spaces:
        return [f"  {name} % {tree.spaces[path].total_bytes} {tree.spaces[path].free_bytes}"]
    if path in tree.texts:
        return _text_lines(name, tree.texts[path])
    if path in tree.blobs:
        return [_blob_line(name, tree.blobs[path])]
    return [f"  {name} !"] if path in tree.refused else []


def _folder_lines(tree: Tree, folder: str) -> list[str]:
    """A folder and what is in it; names of folders that have lines of their own are not repeated."""
    lines, bare = [], []
    names = sorted(tree.children[folder])
    runs = _runs(tree, folder, names)
    skipped = {str(number) for first, last in runs.items() for number in range(int(first) + 1, int(last) + 1)}
    for name in names:
        if name in skipped:
            continue
        written = f"{name}..{runs[name]}" if name in runs else _name(name)
        found = _entry(tree, f"{folder}/{name}", written)
        lines += found
        if not found and f"{folder}/{name}" not in tree.children:
            bare.append(_name(name))
    row = ""
    for name in bare:
        if row and len(row) + len(name) > LINE:
            lines.append(f"  +{row}")
            row = ""
        row += f" {name}"
    if row:
        lines.append(f"  +{row}")
    return [_value(folder) or "/", *lines] if lines or not names else []


def render(tree: Tree, comments: Iterable[str] = ()) -> str:
    """The tree as a capture's text, sorted."""
    lines = [HEADER, *(f"# {comment}" for comment in comments), ""]
    for folder in sorted(tree.children):
        lines += _folder_lines(tree, folder)
    for argv, answer in sorted(tree.programs.items()):
        words = " ".join(map(_name, argv))
        told = answer.output.removesuffix("\n").split("\n") if answer.output else []
        lines += [f"$ {answer.state} {words}", *(f"    {_value(entry)}" for entry in told)]
    return "\n".join(lines) + "\n"

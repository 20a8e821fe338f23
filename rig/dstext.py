"""The words of a DeepSpeed config file with their lines: what tells a quoted string from a bare word.

DeepSpeed reads configs with HJSON, where a bare word runs to the end of its line and becomes a string: `True` is then
"True", which is truthy, and so is `False`. After parsing the difference is gone, so it is looked for in the text.
"""

from rig.lean import Iterator, NamedTuple

PUNCTUATION = "{}[],:"


class Token(NamedTuple):
    """`kind` is one of PUNCTUATION, "string" (quoted), "word" (bare) or "comment"; `line` counts from 1, `start` and
    `stop` are places in the text."""

    kind: str
    text: str
    line: int
    start: int = 0
    stop: int = 0


def tokens(text: str) -> Iterator[Token]:
    """Splits a JSON or HJSON text; never fails: what is not understood is a word. Linear in the length of the text."""
    at, line, end = 0, 1, len(text)
    while at < end:
        char = text[at]
        if char == "\n":
            line += 1
        if char.isspace() or char == "\ufeff":
            at += 1
            continue
        if char in PUNCTUATION:
            yield Token(char, char, line, at, at + 1)
            at += 1
            continue
        stop, kind = _end_of_token(text, at)
        piece = text[at:stop]
        yield Token(kind, _bare(piece) if kind == "string" else piece, line, at, stop)
        line += piece.count("\n")
        at = stop


def _end_of_token(text: str, at: int) -> tuple[int, str]:
    if text[at] in "\"'":
        return _end_of_string(text, at), "string"
    if text[at] == "#" or text.startswith("//", at):
        stop = text.find("\n", at)
        return (len(text) if stop < 0 else stop), "comment"
    if text.startswith("/*", at):
        stop = text.find("*/", at + 2)
        return (len(text) if stop < 0 else stop + 2), "comment"
    stop = at + 1
    while stop < len(text) and text[stop] not in PUNCTUATION and not text[stop].isspace():
        stop += 1
    return stop, "word"


def _end_of_string(text: str, at: int) -> int:
    quote = text[at]
    if text.startswith("'''", at):
        stop = text.find("'''", at + 3)
        return len(text) if stop < 0 else stop + 3
    stop = at + 1
    while stop < len(text) and text[stop] != quote and text[stop] != "\n":
        stop += 2 if text[stop] == "\\" else 1
    return min(stop + 1, len(text)) if stop < len(text) and text[stop] == quote else min(stop, len(text))


def _bare(quoted: str) -> str:
    quote = "'''" if quoted.startswith("'''") else quoted[:1]
    inner = quoted[len(quote) :]
    return inner[: -len(quote)] if inner.endswith(quote) else inner


def duplicate_line(text: str, key: str) -> int | None:
    """The line on which a key of one object stands for the second time; None when that is not found."""
    seen: list[set[str]] = []
    before = Token("", "", 0)
    for token in tokens(text):
        if token.kind == "comment":
            continue
        if token.kind in "{[":
            seen.append(set())
        elif token.kind in "}]" and seen:
            seen.pop()
        elif token.kind == ":" and before.kind in ("string", "word"):
            if not seen:
                seen.append(set())  # HJSON allows the outer braces to be left out
            if before.text == key and key in seen[-1]:
                return before.line
            seen[-1].add(before.text)
        before = token
    return None

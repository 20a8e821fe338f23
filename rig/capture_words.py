"""Words of a capture that are numbers: sizes, bytes of a binary file, ranges of names."""

RANGE_AT_MOST = 4096
BLOB_AT_MOST = 1 << 16
HEX = "0123456789abcdef"


def parse_blob(value: str) -> bytes:
    """`4096 100:0d000100` -> 4096 bytes, zero but for those; ValueError when it is not that."""
    words = value.split() or [""]
    size = whole(words[0])
    if size is None or size > BLOB_AT_MOST:
        raise ValueError(f"a binary file begins with its size, at most {BLOB_AT_MOST} bytes; here is {words[0]!r:.40}")
    blob = bytearray(size)
    for word in words[1:]:
        where, _, digits = word.partition(":")
        if not where or (where + digits).strip(HEX) or len(digits) % 2:
            raise ValueError(f"bytes of a binary file are OFFSET:BYTES in hexadecimal digits; here is {word!r:.40}")
        data, at = bytes.fromhex(digits), int(where, 16)
        if not 0 <= at <= len(blob) - len(data):
            raise ValueError(f"{word:.40} lies outside the file")
        blob[at : at + len(data)] = data
    return bytes(blob)


def whole(text: str) -> int | None:
    """A number in decimal digits; None where it is none, or one that no count of bytes can be."""
    return int(text) if text.isdecimal() and len(text) < 25 else None


def expand(name: str) -> list[str]:
    """`4..255` as the names 4 to 255; any other name as itself."""
    low, dots, high = name.partition("..")
    if not dots or not (low.isdecimal() and high.isdecimal()):
        return [name]
    first, last = whole(low), whole(high)
    if first is None or last is None or not first <= last < RANGE_AT_MOST:
        raise ValueError(f"{name:.40} is no range: the numbers rise, and are below {RANGE_AT_MOST}")
    return list(map(str, range(first, last + 1)))

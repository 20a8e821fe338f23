"""NCCL's matcher for NCCL_IB_HCA and NCCL_SOCKET_IFNAME, as a pure function.

Source: parseStringList, matchIfList, matchIf in NCCL's misc/utils.cc, 2.18 to 2.30: `^` first excludes, then `=` makes
names exact; one sign governs the whole list; `:port` must equal the port; entries longer than 63 characters are cut;
white space is not trimmed. `=^` is not a sign: the `^` is then part of the first name.
"""

from rig.lean import NamedTuple

HCA_NAME_LENGTH = 63  # MAX_IF_NAME_SIZE of the list parser


class Filter(NamedTuple):
    """A parsed list: whether it excludes, whether names are exact, and (name, port) pairs; port -1 means any."""

    exclude: bool
    exact: bool
    entries: tuple[tuple[str, int], ...]


def parse_filter(text: str, most: int = 32) -> Filter:
    """The list as NCCL reads it, at most `most` entries. Entries without a name are skipped; a port that is no number
    counts as 0, as atoi says."""
    exclude = text.startswith("^")
    text = text[1:] if exclude else text
    exact = text.startswith("=")
    text = text[1:] if exact else text
    entries = []
    for word in text.split(","):
        name, colon, port = word.partition(":")
        if not name:
            continue
        entries.append((name[:HCA_NAME_LENGTH], _atoi(port) if colon else -1))
    return Filter(exclude, exact, tuple(entries[:most]))


def _atoi(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    digits = text[1:] if text[:1] in "+-" and text else text
    end = 0
    while end < len(digits) and digits[end] in "0123456789":
        end += 1
    return sign * int(digits[:end][:9]) if end else 0


def matches(value: str, name: str, port: int | None = None) -> bool:
    """Whether NCCL would take `name` (and its `port`, for HCAs) under this value. An empty list takes everything.

    For interfaces leave `port` None: the port part of an entry is then not looked at.
    """
    rule = parse_filter(value)
    if not rule.entries:
        return True
    return _listed(rule, name, port) != rule.exclude


def _listed(rule: Filter, name: str, port: int | None) -> bool:
    for wanted, wanted_port in rule.entries:
        same = name == wanted if rule.exact else name.startswith(wanted)
        if same and (port is None or wanted_port in (-1, port)):
            return True
    return False


def exact_list(hca_names: tuple[str, ...]) -> str:
    """NCCL_IB_HCA or NCCL_SOCKET_IFNAME naming exactly these."""
    return "=" + ",".join(hca_names)

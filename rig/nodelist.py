"""Names of nodes as people and schedulers write them: bracket expressions and hostfile lines."""

from rig.lean import Iterator, NamedTuple

NODE_LIMIT = 65536  # a typing error like [1-999999999] must not eat the memory of a boot
SLOTS_LIMIT = 1024  # ranks on one node; as many as RIG_CPU_RANKS allows
SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:%")


class NodeListError(ValueError):
    """A node list that cannot be expanded; the message names the part."""


class Node(NamedTuple):
    """A machine that takes part. `slots` is its number of GPUs, None where nobody said; `address` is what to connect to
    where that is not the name."""

    name: str
    slots: int | None = None
    address: str | None = None


def expand(expression: str) -> tuple[str, ...]:
    """`gpu-[01-03,7],login` -> gpu-01, gpu-02, gpu-03, gpu-7, login, in the order written.

    The grammar is Slurm's (`scontrol show hostnames`): commas or blanks between names, ranges in brackets, the width of
    the first number kept where it has leading zeros, several brackets in a name. Duplicates stay. Raises NodeListError.
    """
    names: list[str] = []
    for term in _terms(expression):
        for name in _one(term):
            names.append(name)
            if len(names) > NODE_LIMIT:
                raise NodeListError(f"'{_short(term)}' gives more than {NODE_LIMIT} nodes")
    return tuple(names)


def expand_safe(expression: str) -> tuple[str, ...]:
    """The names of a list that a job can be started from: some, each fit for shells and ssh, none twice.

    Raises NodeListError.
    """
    names = expand(expression)
    if not names:
        raise NodeListError("it names no node")
    seen: set[str] = set()
    for name in names:
        why = "stands there twice" if name in seen else why_unsafe(name)
        if why:
            raise NodeListError(f"node name '{_short(name)}' {why}")
        seen.add(name)
    return names


def _terms(expression: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, char in enumerate(expression):
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        if depth not in (0, 1):
            raise NodeListError(f"brackets do not match in '{_short(expression)}'")
        if depth == 0 and (char == "," or char.isspace()):
            if at > start:
                yield expression[start:at]
            start = at + 1
    if depth:
        raise NodeListError(f"brackets do not match in '{_short(expression)}'")
    if start < len(expression):
        yield expression[start:]


def _one(term: str) -> list[str]:
    names, rest = [""], term
    while rest:
        literal, bracket, rest = rest.partition("[")
        choices = [""]
        if bracket:
            inside, _, rest = rest.partition("]")
            choices = _choices(inside, term)
        if len(names) * len(choices) > NODE_LIMIT:
            raise NodeListError(f"'{_short(term)}' gives more than {NODE_LIMIT} nodes")
        names = [before + literal + choice for before in names for choice in choices]
    return names


def _choices(inside: str, term: str) -> list[str]:
    found: list[str] = []
    for part in inside.split(","):
        low, dash, high = part.strip().partition("-")
        if not _digits(low) or (dash and not _digits(high)) or (dash and int(high) < int(low)):
            raise NodeListError(f"'{_short(part)}' is not a range in '{_short(term)}'")
        first, last = int(low), int(high) if dash else int(low)
        if len(found) + last - first >= NODE_LIMIT:
            raise NodeListError(f"'{_short(term)}' gives more than {NODE_LIMIT} nodes")
        width = len(low) if low.startswith("0") else 0
        found.extend(str(number).zfill(width) for number in range(first, last + 1))
    return found


def _digits(text: str) -> bool:
    return 0 < len(text) < 10 and text.isascii() and text.isdigit()


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def number(text: str | None) -> int | None:
    """A whole number without sign as schedulers write it, None for anything else."""
    text = (text or "").strip()
    return int(text) if _digits(text) else None


def why_unsafe(name: str) -> str:
    """What is wrong with a node name that goes into shell lines, ssh and pdsh; "" when nothing is."""
    if not name:
        return "is empty"
    if name[0] == "-":
        return "begins with a dash: ssh takes it for an option"
    bad = sorted({char for char in name if char not in SAFE})
    return f"holds {' '.join(repr(char) for char in bad[:3])}" if bad else ""


def _spread(name: str) -> tuple[str, ...]:
    """`gpu-[01-02]` as its hosts; what is no range stays, and is named as a bad name later."""
    if "[" not in name or name.startswith("["):
        return (name,)
    try:
        return expand(name)
    except NodeListError:
        return (name,)


def hostfile_nodes(text: str) -> tuple[Node, ...]:
    """The nodes of a hostfile in any of the dialects that schedulers write; lines that name no host are left out.

    `host slots=8` (DeepSpeed, Open MPI), `host:8` (MPICH, Intel MPI), `host` (PBS: once a slot). What DeepSpeed's own
    reader makes of a file, and what is wrong with it, is rig.plan.hostfile.
    """
    counts: dict[str, int | None] = {}
    repeats: dict[str, int] = {}
    for line in text.lstrip("\ufeff").splitlines():
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        name, _, suffix = words[0].partition(":") if words[0].count(":") == 1 else (words[0], "", "")
        slots = next((number(word[6:]) for word in words[1:] if word.startswith("slots=")), number(suffix))
        for host in _spread(name):
            repeats[host] = repeats.get(host, 0) + 1
            counts.setdefault(host, slots)
    return tuple(
        Node(name, slots if slots is not None or repeats[name] == 1 else repeats[name])
        for name, slots in counts.items()
    )

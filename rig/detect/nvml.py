"""What only the driver can tell, asked in a child with a deadline: see nvml_child.py for what it prints.

Source: NVIDIA Management Library API reference.
"""

from rig.lean import NamedTuple
from rig.machine import Gpu
from rig.root import Collected, Root, Running
from rig.text import bus_id, line, whole

TIMEOUT_S = 20.0  # without persistence mode the driver initialises every GPU first, seconds each
STATES = {"hung": "unresponsive", "cut": "cut", "failed": "failed"}
GPUS_AT_MOST = 64


class Answer(NamedTuple):
    """What the child said. `gpus` maps a GPU's index to its facts by key, repeated keys to several values."""

    state: str | None = None  # ok, absent, failed, unresponsive, cut; None: not asked
    error: str | None = None
    driver: str | None = None
    gpus: dict[int, dict[str, tuple[str, ...]]] = {}  # noqa: RUF012  a field, not a shared default
    asking: str | None = None  # bus id that was being asked when the answer broke off
    denied: int | None = None  # GPUs that are kept from this process while others are not


def start(root: Root) -> Running:
    """Start the child; ask for its answer after the files have been read."""
    return root.start(("rig-nvml",), TIMEOUT_S)


def parse(collected: Collected) -> Answer:
    """Lines `INDEX KEY VALUE`, `driver VERSION`, `asking INDEX`, `error TEXT`, `denied COUNT`, `absent` and, last,
    `end`.

    An answer without `end` broke off: what was said before counts, and the GPU that was being asked did not answer.
    """
    state = STATES.get(collected.state)
    driver = denied = None
    errors: list[str] = []
    gpus: dict[int, dict[str, tuple[str, ...]]] = {}
    asking: str | None = None
    for entry in collected.output.split("\n"):
        first, _, rest = entry.partition(" ")
        index = whole(first, 0, GPUS_AT_MOST - 1) if entry[:1].isdigit() else None
        if index is not None and rest:
            key, _, value = rest.partition(" ")
            facts = gpus.setdefault(index, {})
            facts[key] = (*facts.get(key, ()), value)
        elif first == "driver":
            driver = line(rest, 40)
        elif first == "error":
            state, errors = "failed", [*errors, line(rest) or "the driver refused"]
        elif first == "denied":
            denied = whole(rest, 1, GPUS_AT_MOST)
        elif first == "absent":
            state = "absent"
        elif first == "asking":
            asking = line(rest, 8)
        elif first == "end":
            asking = "end"
    if state is None and collected.state == "ok":
        state = "ok" if asking == "end" else "failed"
    broken = None if asking in (None, "end") else _name(gpus, asking)
    return Answer(state, "; ".join(errors) or None, driver, gpus, broken, denied)


def _name(gpus: dict[int, dict[str, tuple[str, ...]]], index: str | None) -> str:
    """The bus id of GPU `index`, or its index where it died before it told."""
    facts = gpus.get(whole(index, 0, GPUS_AT_MOST) or 0, {}) if index is not None else {}
    return bus_id(facts.get("bus_id", ("",))[0]) or f"GPU {index}"


def _one(facts: dict[str, tuple[str, ...]], key: str) -> str | None:
    return line(facts.get(key, ("",))[0])


def _yes(facts: dict[str, tuple[str, ...]], key: str) -> bool | None:
    return {"1": True, "0": False}.get(facts.get(key, ("",))[0])


def parse_capability(text: str | None) -> tuple[int, int] | None:
    """(9, 0) of `9.0`."""
    major, _, minor = (text or "").partition(".")
    first, second = whole(major, 1, 99), whole(minor, 0, 9)
    return None if first is None or second is None else (first, second)


def parse_peers(facts: dict[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """Bus ids to which `p2p BUS READ WRITE` grants both; NVML_P2P_STATUS_OK is 0. None when nothing was said."""
    if "p2p" not in facts:
        return None
    granted = []
    for entry in facts["p2p"]:
        words = entry.split()
        peer = bus_id(words[0]) if len(words) == 3 else None
        if peer is not None and words[1:] == ["0", "0"]:
            granted.append(peer)
    return tuple(granted)


def with_answer(gpu: Gpu, facts: dict[str, tuple[str, ...]], others: tuple[str, ...]) -> Gpu:
    """One GPU with what the driver said about it; files keep the word where the driver is silent."""
    ends = [entry.partition(" ")[2] for entry in facts.get("nvlink", ())]  # `12 0000:0f:00.0`, `18 switch`
    switch = "switch" in ends if ends else None
    peers = parse_peers(facts)
    reached = others if switch else tuple(dict.fromkeys(end for end in map(bus_id, ends) if end in others))
    return gpu._replace(
        model=_one(facts, "name") or gpu.model,
        uuid=_one(facts, "uuid") or gpu.uuid,
        memory_bytes=whole(_one(facts, "memory"), 1, 1 << 44) or gpu.memory_bytes,
        capability=parse_capability(_one(facts, "capability")) or gpu.capability,
        nvlinks=whole(_one(facts, "nvlinks"), 0, 1000),
        nvlink_peers=reached or gpu.nvlink_peers,
        p2p=None if peers is None else bool(peers),
        mig=_yes(facts, "mig"),
        ecc=_yes(facts, "ecc"),
        persistence=_yes(facts, "persistence"),
        c2c=_yes(facts, "c2c"),
        p2p_peers=peers,
        nvswitch=switch,
    )


def join(gpus: tuple[Gpu, ...], answer: Answer) -> tuple[Gpu, ...]:
    """GPUs of the files with the driver's facts, matched by bus id. GPUs that only the driver names are added; where it
    keeps as many from this process as it does not name, those are left out: they belong to other jobs."""
    told = {}
    for _, facts in sorted(answer.gpus.items()):
        bus = bus_id(_one(facts, "bus_id"))
        if bus is not None:
            told[bus] = facts
    seen = {gpu.bus_id for gpu in gpus if gpu.bus_id is not None}
    if answer.denied is not None and answer.denied >= len(seen - set(told)):
        seen, gpus = set(), tuple(gpu for gpu in gpus if gpu.bus_id in told)
    buses = tuple(sorted({*told, *seen}))
    known = {gpu.bus_id: gpu for gpu in gpus}
    joined = []
    for bus in buses:
        gpu = known.get(bus, Gpu(0, bus))
        if bus in told:
            gpu = with_answer(gpu, told[bus], tuple(other for other in buses if other != bus))
        joined.append(gpu)
    joined += [gpu for gpu in gpus if gpu.bus_id is None]
    return tuple(gpu._replace(index=index) for index, gpu in enumerate(joined))

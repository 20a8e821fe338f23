"""The environment of each rank, and how many there are. Pure."""

from rig.lean import Iterator, NamedTuple

NO_DEVICE = ("-1", "NoDevFiles")  # what people write into CUDA_VISIBLE_DEVICES to hide all GPUs
DEFAULT_PORT = 29500  # torch's own default


class Place(NamedTuple):
    """Where this node stands in the job: `slots` holds the number of ranks of each node, in order of node rank."""

    slots: tuple[int, ...]
    node_rank: int = 0
    master_addr: str = "127.0.0.1"
    master_port: int = DEFAULT_PORT

    @property
    def local_size(self) -> int:
        return self.slots[self.node_rank]

    @property
    def first_rank(self) -> int:
        return sum(self.slots[: self.node_rank])


def rank_environment(place: Place, local_rank: int) -> dict[str, str]:
    """What tells one process who it is.

    The names are torchrun's (torch/distributed/run.py, "Environment Variables") and those that DeepSpeed's own launcher
    adds (launcher/launch.py: CROSS_RANK, CROSS_SIZE, LOCAL_SIZE). None of TORCHELASTIC_*: they make torch look for the
    store of an agent that is not there.
    """
    local, nodes, world = str(place.local_size), str(len(place.slots)), str(sum(place.slots))
    rank, node = str(place.first_rank + local_rank), str(place.node_rank)
    return {
        "RANK": rank,
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": local,
        "GROUP_RANK": node,
        "GROUP_WORLD_SIZE": nodes,
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world,
        "NODE_RANK": node,
        "CROSS_RANK": node,
        "CROSS_SIZE": nodes,
        "LOCAL_SIZE": local,
        "MASTER_ADDR": place.master_addr,
        "MASTER_PORT": str(place.master_port),
    }


def visible(found: int, text: str | None) -> int:
    """How many of `found` GPUs CUDA will show when CUDA_VISIBLE_DEVICES is `text`.

    CUDA reads the list up to the first entry that it does not know (CUDA C Programming Guide, "CUDA Environment
    Variables"): an index beyond the last GPU ends it, names (`GPU-...`, `MIG-...`) count one each.
    """
    if text is None:
        return found
    count = 0
    for entry in text.split(","):
        word = entry.strip()
        if word in NO_DEVICE or not word:
            break
        if word.isdecimal() and int(word) >= found:
            break
        if not word.isdecimal() and not word.startswith(("GPU-", "MIG-")):
            break
        count += 1
    return count


def threads(cpus: float | None, ranks: int) -> int:
    """OpenMP threads for each of `ranks` processes that share `cpus`; at least 1, and 1 where the number is unknown."""
    return max(1, int((cpus or 1) // max(1, ranks)))


def port_candidates(local_range: str | None, seed: bytes) -> Iterator[int]:
    """Ports to try for MASTER_PORT: below the range from which the kernel takes the ports of outgoing connections.

    Rank 0 listens seconds after the port was chosen, and by then an outgoing connection might have taken a port of that
    range (`local_range`: /proc/sys/net/ipv4/ip_local_port_range). `seed` (4 bytes or more) spreads jobs that share a
    network namespace.
    """
    words = (local_range or "").split()
    end = int(words[0]) if words and words[0].isdigit() else 32768
    start = 20000 if end > 21000 else max(1024, end - 2000)
    span = max(1, end - start)
    for step in range(16):
        yield start + (int.from_bytes(seed[:4], "big") + step * 997) % span

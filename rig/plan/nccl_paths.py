"""How far the GPUs are from the HCAs, in NCCL's classes."""

from rig.lean import Mapping
from rig.machine import Gpu, Hca, Machine
from rig.plan.nccl_facts import Candidate, Scene
from rig.topology import class_between, place_of, tree

ORDER = ("LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS")
NEAR = ("LOC", "PIX", "PXB")


rank = ORDER.index  # NCCL's number of a class: LOC 0 ... SYS 7 (2.18 to 2.25)


def measure_paths(machine: Machine) -> Mapping[tuple[str, str], str | None]:
    """(bus id of a GPU, bus id of an HCA) -> class, for all pairs; made once, as every rule asks."""
    known = tree(machine.pci)
    hcas = {hca.bus_id: place_of(known, hca.bus_id) for hca in machine.hcas if hca.bus_id is not None}
    gpus = {gpu.bus_id: place_of(known, gpu.bus_id) for gpu in machine.gpus if gpu.bus_id is not None}
    found = {}
    for gpu, here in gpus.items():
        for hca, there in hcas.items():
            kind = class_between(here, there)
            # without a common switch the path leads through a CPU at least, even where one NUMA node is not known
            found[gpu, hca] = "PHB" if kind is None and here is not None and there is not None else kind
    return found


def between(scene: Scene, gpu: Gpu, hca: Hca) -> str | None:
    """Class of the path from a GPU to an HCA. None where the tree or the NUMA node is unknown."""
    if gpu.bus_id is None or hca.bus_id is None:
        return None
    return scene.paths.get((gpu.bus_id, hca.bus_id))


def nearest(scene: Scene, gpu: Gpu, candidates: tuple[Candidate, ...]) -> str | None:
    """Class of the shortest known path from a GPU to any of the candidates."""
    kinds = [kind for one in candidates if (kind := between(scene, gpu, one.hca)) is not None]
    return min(kinds, key=rank) if kinds else None


def closest_gpu(scene: Scene, hca: Hca) -> str | None:
    """Class of the shortest path from an HCA to any GPU; None unless every GPU's path is known or one is near."""
    kinds = [between(scene, gpu, hca) for gpu in scene.machine.gpus]
    known = [kind for kind in kinds if kind is not None]
    if not known:
        return None
    best = min(known, key=rank)
    return best if best in NEAR or len(known) == len(kinds) else None


def gpu_less_numa(machine: Machine, hca: Hca) -> bool:
    """Whether the HCA hangs on a NUMA node that holds no GPU (SYS from all of them)."""
    nodes = {gpu.numa for gpu in machine.gpus}
    return bool(nodes) and None not in nodes and hca.numa is not None and hca.numa not in nodes


def declared(scene: Scene, gpu: Gpu, hca: Hca) -> bool:
    """Whether the platform file says that this GPU and this HCA belong together (below one switch of the real host)."""
    if scene.platform is None or gpu.bus_id is None:
        return False
    return any(
        gpu.bus_id in nic.gpu_affinity
        for nic in scene.platform.nics
        if nic.name == hca.name or (nic.bus_id is not None and nic.bus_id == hca.bus_id)
    )

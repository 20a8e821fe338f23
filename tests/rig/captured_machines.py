"""The machines in tests/machines as Roots, and what of them must not change when names are replaced."""

from pathlib import Path

from rig.captured import Captured
from rig.machine import Machine
from rig.topology import path_class, tree

MACHINES = Path(__file__).parents[1] / "machines"
NAMES = sorted(folder.name for folder in MACHINES.iterdir() if (folder / "tree.txt").is_file())


def machine_of(name: str) -> Captured:
    return Captured(str(MACHINES / name / "tree.txt"))


def shape(machine: Machine) -> tuple[object, ...]:
    """What rules rest on, without any address or id."""
    known = tree(machine.pci)
    pairs = [(gpu.bus_id, hca.bus_id) for gpu in machine.gpus for hca in machine.hcas if gpu.bus_id and hca.bus_id]
    return (
        [path_class(known, gpu, hca) for gpu, hca in pairs],
        [gpu._replace(uuid=None) for gpu in machine.gpus],
        [[(p.name, p.state, p.rate_gbps, len(p.gids), p.netdevs) for p in hca.ports] for hca in machine.hcas],
        [[gid.type for gid in p.gids] for hca in machine.hcas for p in hca.ports],
        [(dev.name, dev.kind, dev.up, dev.default_route, len(dev.ipv4), len(dev.ipv6)) for dev in machine.netdevs],
        [
            [machine.hcas.index(other) for other in machine.hcas if other.sys_image_guid == hca.sys_image_guid]
            for hca in machine.hcas
        ],
        machine.kernel,
        machine.limits,
        machine.libraries,
        machine.pci,
    )

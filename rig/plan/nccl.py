"""NCCL on this node: which HCAs, which GID, which interface, whether GPUDirect RDMA - and as few lines as will do.

Unset is right more often than a guess. A node-local line is written only where NCCL, left alone, would (or could) do
something else; values that are a property of the fabric come from the platform file; the user's variables win.
"""

from rig.finding import Finding
from rig.lean import TYPE_CHECKING, Mapping
from rig.machine import Machine
from rig.plan import Setting, nccl_access, nccl_fabric, nccl_local
from rig.plan.gdr import GdrPlan, efa_without_gdr, plan_gdr
from rig.plan.hca import Choice, choose, is_efa, reachable
from rig.plan.nccl_facts import FAULTS, NOTHING, Candidate, NcclPlan, Say, Scene, names, say
from rig.plan.nccl_facts import Peer as Peer
from rig.plan.nccl_gid import GidPlan, plan_gids
from rig.plan.nccl_heard import listen
from rig.plan.nccl_match import exact_list
from rig.plan.nccl_paths import measure_paths
from rig.plan.nccl_vars import accepted
from rig.plan.socket import plan_socket

if TYPE_CHECKING:
    from rig.platform import Platform


def plan_nccl(
    machine: Machine,
    *,
    platform: "Platform | None" = None,
    user: Mapping[str, str] = NOTHING,
    peers: tuple[Peer, ...] = (),
    nccl_version: tuple[int, int, int] | None = None,
    nodes: int | None = None,
    symptoms: tuple[str, ...] = (),
    unread: Mapping[str, str] = NOTHING,
    p2p_works: bool | None = None,
) -> NcclPlan:
    """NCCL's settings for this node, with reasons. Pure; never raises on a Machine with gaps.

    `user`: the environment (only NCCL_* and FI_* are looked at). `peers`: the other nodes as far as they are known.
    `nccl_version`: of the library that will be loaded; None: the machine's. `nodes`: how many take part; None: not
    known. `symptoms`: log lines or words of a run that went wrong. `unread`: NCCL variables found in files that
    launched ranks do not read (/etc/environment, profiles). `p2p_works`: whether a data-checked copy between GPUs over
    PCIe came through. A boot passes none of `peers`, `symptoms`, `unread`, `p2p_works`: they are for a look at several
    nodes together, or back at a run.
    """
    user = {name: value for name, value in user.items() if name.startswith(("NCCL_", "FI_"))}
    version = nccl_version or machine.libraries.nccl_version
    paths = measure_paths(machine)
    scene = Scene(machine, platform, user, peers, version, nodes, symptoms, unread, p2p_works, paths)
    alone = choose(scene)
    shared = _shared_with_peers(scene, alone)
    gids = plan_gids(scene, shared)
    return _assemble(scene, gids, alone if shared is not alone else gids.choice)


def _shared_with_peers(scene: Scene, choice: Choice) -> Choice:
    """Where a peer has fewer of the same HCAs, use what both have: an extra one waits for a partner for ever
    (nccl#2428)."""
    lists = [set(peer.hcas) for peer in scene.peers if peer.hcas]
    common = tuple(one for one in choice.chosen if all(one.hca.name in names_there for names_there in lists))
    smaller = any(names_there < set(names(choice.chosen)) for names_there in lists)
    return choice._replace(chosen=common) if common and smaller else choice


def _assemble(scene: Scene, gids: GidPlan, alone: Choice) -> NcclPlan:
    """All rules, then the lines and the verdict. `alone`: the choice before peers narrowed it."""
    choice, sockets = gids.choice, plan_socket(scene)
    topo, topo_said = topology_file(scene, choice.chosen)
    gdr = plan_gdr(scene, choice.chosen, bool(topo))
    said: list[Say] = [*choice.said, *gids.said, *sockets.said, *topo_said, *gdr.said, *efa_without_gdr(scene.machine)]
    said += [one for rule in nccl_access.RULES for one in rule(scene)]
    said += [one for rule in nccl_local.RULES for one in rule(scene)]
    said += nccl_local.cards(scene, choice.chosen)
    said += nccl_local.guest(scene, choice.chosen, bool(topo))
    said += [one for rule in nccl_fabric.RULES for one in rule(scene, choice)]
    peers_lines, peers_said = _peers(scene, names(alone.chosen), gids.indexes, sockets.right)
    said += [*peers_said, *_users(scene, gids, sockets.right)]
    hca_lines, hca_said = hca_setting(scene, choice)
    said += hca_said
    conf = (*hca_lines, *gids.settings, *sockets.settings, *topo, *gdr.settings)
    conf += (*nccl_local.p2p_settings(scene), *nccl_local.merge_settings(scene, choice.chosen))
    everywhere = (*nccl_fabric.settings(scene, choice), *efa_settings(scene), *peers_lines)
    conf, refused = accepted(_user_wins(scene, conf), scene.version)
    everywhere, refused_too = accepted(_user_wins(scene, everywhere), scene.version)
    said += [*refused, *refused_too]
    hcas = names(choice.chosen) if choice.decided else None
    verdict = judge(scene, choice, gdr, said)
    return NcclPlan(everywhere, conf, hcas, gids.indexes, sockets.right, gdr.ladder, verdict, once(said))


def _peers(
    scene: Scene, hcas: tuple[str, ...], indexes: tuple[tuple[str, int], ...], socket_if: str | None
) -> tuple[tuple[Setting, ...], list[Say]]:
    """What differs from the other nodes, where any is known."""
    if not scene.peers:
        return (), []
    from rig.plan import nccl_peers  # most boots know no peer

    own = nccl_peers.Own(hcas, indexes, socket_if)
    return nccl_peers.plugin_settings(scene, own), [one for rule in nccl_peers.RULES for one in rule(scene, own)]


def _users(scene: Scene, gids: GidPlan, socket_if: str | None) -> list[Say]:
    """The user's variables against the facts, where there are any (or a run's words that may be about them)."""
    if not (scene.user or scene.unread or scene.symptoms):
        return []
    from rig.plan import nccl_user  # most boots have none

    right = nccl_user.Right(gids.choice, gids.indexes, socket_if)
    return [one for rule in nccl_user.RULES for one in rule(scene, right)]


def hca_setting(scene: Scene, choice: Choice) -> tuple[tuple[Setting, ...], tuple[Say, ...]]:
    """NCCL_IB_HCA, exact, where NCCL alone would take other ports too."""
    chosen = names(choice.chosen)
    if not chosen or not choice.decided or len(choice.unfiltered) == len(choice.chosen):
        return (), ()
    others = tuple(hca.name for hca in scene.machine.hcas if hca.name not in chosen and not is_efa(hca))
    said: tuple[Say, ...] = ()
    every = (*chosen, *others)
    trap = next(((one, other) for one in every for other in every if one != other and other.startswith(one)), None)
    if trap is not None:
        text = f"{trap[0]} is also the beginning of {trap[1]}: the list must be exact (=)"
        said = (say("HCA_NEEDS_EXACT", text, subject=trap[0]),)
    reason = f"{len(chosen)} of {len(chosen) + len(others)} RDMA devices carry the job's traffic"
    return (Setting("NCCL_IB_HCA", exact_list(_with_ports(choice)), "detection", reason),), said


def _with_ports(choice: Choice) -> tuple[str, ...]:
    """Names, with the port where only some ports of a device are chosen."""
    found = []
    for one in choice.chosen:
        twins = [other for other in choice.unfiltered if other.hca.name == one.hca.name and other not in choice.chosen]
        found.append(one.port.name if twins else one.hca.name)
    return tuple(dict.fromkeys(found))


def topology_file(scene: Scene, chosen: tuple[Candidate, ...]) -> tuple[tuple[Setting, ...], tuple[Say, ...]]:
    """The platform's NCCL topology file, where its bus ids are this machine's. Never invent one."""
    platform = scene.platform
    if platform is None or platform.topo_file is None:
        return (), ()
    here = {gpu.bus_id for gpu in scene.machine.gpus} | {one.hca.bus_id for one in chosen}
    missing = sorted(bus for bus in here if bus is not None and bus not in platform.topo_buses)
    if missing:
        text = f"{platform.topo_file} is not used: it does not know {missing[0]} of this machine"
        fix = "Use the topology file of this instance type"
        return (), (say("TOPO_FILE_MISMATCH", text, outcome="warn", domain="platform", got=missing, fix=fix),)
    reason = f"the host's PCI tree as the provider knows it; its {len(platform.topo_buses)} bus ids cover this machine"
    return (Setting("NCCL_TOPO_FILE", platform.topo_file, "platform file", reason),), ()


def efa_settings(scene: Scene) -> tuple[Setting, ...]:
    """libfabric must take EFA and nothing else, where the machine has it."""
    if any(one.finding.id == "EFA_NOT_IN_CONTAINER" for one in nccl_access.efa(scene)) or (
        any(is_efa(hca) for hca in scene.machine.hcas) and nccl_access.ofi_plugin(scene)
    ):
        reason = "EFA serves NCCL through libfabric; without this it may fall to TCP silently"
        return (Setting("FI_PROVIDER", "efa", "detection", reason),)
    return ()


def _user_wins(scene: Scene, settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
    """Leave out what the user has set: the environment beats nccl.conf, so the line would only mislead."""
    return tuple(one for one in settings if one.name not in scene.user)


def judge(scene: Scene, choice: Choice, gdr: GdrPlan, said: list[Say]) -> str:
    """The worst verdict that a finding asks for; else what the network amounts to."""
    asked = {one.verdict for one in said}
    for verdict in FAULTS:
        if verdict in asked:
            return verdict
    efa = any(is_efa(hca) and reachable(hca) for hca in scene.machine.hcas)
    if choice.chosen or efa:
        off = gdr.on is False or listen(scene.symptoms).gdr_disabled or (efa and bool(efa_without_gdr(scene.machine)))
        return "rdma-ok-no-gdr" if off else "rdma-ok"
    if scene.nodes == 1 or not any(dev.kind != "loopback" and dev.name != "lo" for dev in scene.machine.netdevs):
        return "no-network-needed"
    return "tcp-only"


def once(said: list[Say]) -> tuple[Finding, ...]:
    """Findings in order, each once."""
    found: dict[tuple[str, str], Finding] = {}
    for one in said:
        found.setdefault((one.finding.id, one.finding.text), one.finding)
    return tuple(found.values())

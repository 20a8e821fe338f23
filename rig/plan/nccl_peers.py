"""What differs between this node and the others. Node-local values must not travel from one to another.

A boot knows no other node: these rules are for a look at several nodes together (Snapshots of a fleet).
"""

from rig.lean import Callable, NamedTuple
from rig.machine import Machine
from rig.plan import Setting
from rig.plan.nccl_facts import NcclPlan, Peer, Say, Scene, listed, say
from rig.plan.nccl_heard import listen


class Own(NamedTuple):
    """This node's answers, to be compared with the peers'."""

    hcas: tuple[str, ...] = ()
    gid_index: tuple[tuple[str, int], ...] = ()
    socket_if: str | None = None


def peer_of(plan: NcclPlan, machine: Machine, host: str | None = None) -> Peer:
    """Another node's plan as a Peer of this one's."""
    return Peer(
        host or machine.surroundings.hostname,
        tuple(address.partition("/")[0] for dev in machine.netdevs for address in dev.ipv4 if dev.kind != "loopback"),
        plan.hcas,
        plan.gid_index or None,
        plan.socket_if,
        tuple(dev.name for dev in machine.netdevs),
        machine.libraries.net_plugins,
        machine.libraries.nccl_version,
    )


def travels(scene: Scene, variable: str) -> str | None:
    """The verdict on a node-local value: a fault where the user exports it to all nodes, or where a run has failed."""
    known = variable in scene.user or variable in scene.unread or listen(scene.symptoms).failed
    return "misconfigured" if known else None


def hca_lists(scene: Scene, own: Own) -> tuple[Say, ...]:
    said = []
    for peer in scene.peers:
        if peer.hcas is None or not (own.hcas or peer.hcas):
            continue
        if len(peer.hcas) != len(own.hcas):
            text = f"{len(own.hcas)} HCAs here and {len(peer.hcas)} on {peer.host or 'a peer'}: initialisation hangs"
            fix = "Use the same number of HCAs on all nodes; repair the node that has fewer"
            said.append(
                say(
                    "HCA_COUNT_MISMATCH", text, verdict="misconfigured", want=len(own.hcas), got=len(peer.hcas), fix=fix
                )
            )
        elif set(peer.hcas) != set(own.hcas):
            text = f"HCA names differ: {listed(own.hcas)} here, {listed(peer.hcas)} on {peer.host or 'a peer'}"
            fix = "Leave NCCL_IB_HCA to each node's nccl.conf; do not export it from the first node"
            verdict = travels(scene, "NCCL_IB_HCA")
            said.append(say("PER_NODE_HCA_LIST", text, verdict=verdict, domain="user", fix=fix))
    return tuple(said[:1])


def gid_indexes(scene: Scene, own: Own) -> tuple[Say, ...]:
    mine = {index for _, index in own.gid_index}
    for peer in scene.peers:
        theirs = {index for _, index in peer.gid_index or ()}
        if mine and theirs and mine != theirs:
            text = (
                f"The GID index is {listed(sorted(mine))} here and {listed(sorted(theirs))} on {peer.host or 'a peer'}"
            )
            fix = "Leave NCCL_IB_GID_INDEX to each node's nccl.conf; do not export it from the first node"
            verdict = travels(scene, "NCCL_IB_GID_INDEX")
            return (say("GID_PER_NODE", text, verdict=verdict, domain="user", fix=fix),)
    return ()


def interfaces(scene: Scene, own: Own) -> tuple[Say, ...]:
    for peer in scene.peers:
        if own.socket_if is None or peer.socket_if in (None, own.socket_if):
            continue
        text = f"The interface to the peers is {own.socket_if} here and {peer.socket_if} on {peer.host or 'a peer'}"
        fix = "Leave NCCL_SOCKET_IFNAME to each node's nccl.conf; do not export it from the first node"
        verdict = travels(scene, "NCCL_SOCKET_IFNAME")
        return (say("PER_NODE_SOCKET_IF", text, verdict=verdict, domain="user", fix=fix),)
    return ()


def _plugin_differs(scene: Scene) -> bool:
    here = bool(scene.machine.libraries.net_plugins)
    return any(peer.net_plugins is not None and bool(peer.net_plugins) != here for peer in scene.peers)


def plugins(scene: Scene, own: Own) -> tuple[Say, ...]:
    if not _plugin_differs(scene):
        return ()
    text = "An NCCL network plugin is found on some nodes only: the two sides do not understand each other, and hang"
    fix = "Use the same image everywhere; NCCL_NET_PLUGIN=none takes NCCL's own transport"
    return (say("PLUGIN_MISMATCH", text, verdict="misconfigured", domain="image", fix=fix),)


def plugin_settings(scene: Scene, own: Own) -> tuple[Setting, ...]:
    if not _plugin_differs(scene) or not own.hcas:
        return ()
    reason = "a network plugin is found on some nodes only, and NCCL's own transport serves these HCAs"
    return (Setting("NCCL_NET_PLUGIN", "none", "detection", reason),)


def versions(scene: Scene, own: Own) -> tuple[Say, ...]:
    for peer in scene.peers:
        if peer.nccl_version is not None and scene.version is not None and peer.nccl_version != scene.version:
            text = f"NCCL differs between nodes: {scene.version} here, {peer.nccl_version} on {peer.host or 'a peer'}"
            return (say("NCCL_VERSION_MISMATCH", text, verdict="misconfigured", domain="image", fix="Use one image"),)
    return ()


RULES: tuple[Callable[[Scene, Own], tuple[Say, ...]], ...] = (hca_lists, gid_indexes, interfaces, plugins, versions)

"""The network between the nodes: rails, routes, what a run said about it, and what the platform file asks for."""

from rig.lean import Callable
from rig.plan import Setting
from rig.plan.gid import ipv4_of, right_gid
from rig.plan.hca import Choice
from rig.plan.nccl_facts import Candidate, Say, Scene, listed, names, say
from rig.plan.nccl_gid import subnet_of
from rig.plan.nccl_heard import listen


def networks(scene: Scene, chosen: tuple[Candidate, ...]) -> dict[str, str]:
    """HCA -> the network of its RoCE address: the platform's subnet, else the first three bytes of IPv4 (an
    assumption)."""
    found = {}
    for one in chosen:
        entry = right_gid(one.port, scene.machine.netdevs) if one.port.link_layer == "Ethernet" else None
        address = ipv4_of(entry.gid) if entry else None
        if address is not None:
            found[one.hca.name] = subnet_of(scene, one) or address.rpartition(".")[0]
    return found


def separate_rails(scene: Scene, chosen: tuple[Candidate, ...]) -> bool:
    """Each RoCE port is in a network of its own, and the ports are different cards."""
    nets = networks(scene, chosen)
    one_card = len({one.hca.sys_image_guid for one in chosen}) == 1 and chosen[0].hca.sys_image_guid is not None
    return len(nets) > 1 and len(set(nets.values())) > 1 and not one_card


def isolated(scene: Scene) -> str | None:
    """Who says that rails have no path to each other; None: nobody."""
    if scene.user_value("NCCL_CROSS_NIC") == "0":
        return "environment"
    if scene.platform is not None and any(rail.isolated for rail in scene.platform.rails):
        return "platform file"
    return None


def rails(scene: Scene, choice: Choice) -> tuple[Say, ...]:
    said_by = isolated(scene)
    if said_by is None or len(choice.chosen) < 2:
        return ()
    text = f"The rails of {listed(names(choice.chosen))} have no path to each other ({said_by}): NCCL_CROSS_NIC=0"
    return (say("RAIL_ISOLATED", text, domain="platform"),)


def route(scene: Scene, choice: Choice) -> tuple[Say, ...]:
    """A run could not reach the other side, and the ports are in different subnets."""
    if not listen(scene.symptoms).network_unreachable or not separate_rails(scene, choice.chosen):
        return ()
    text = f"{listed(names(choice.chosen))} are in different subnets, and there is no route between them"
    fix = "Add the route, or keep to one rail (NCCL_CROSS_NIC=0)"
    return (say("ROCE_ROUTE_MISSING", text, verdict="misconfigured", fix=fix),)


def v2_blocked(scene: Scene, choice: Choice) -> tuple[Say, ...]:
    """Runs work over v1 only: the fabric drops v2. Never switch to v1 for that."""
    if not listen(scene.symptoms).v2_fails or all(one.port.link_layer != "Ethernet" for one in choice.chosen):
        return ()
    text = "RoCE v2 does not get through while v1 does: UDP 4791 is dropped, or ARP and routes of the NICs are wrong"
    fix = "Repair the fabric; v1 works inside one layer-2 segment only"
    return (say("ROCE_V2_UNREACHABLE", text, verdict="host-fix-needed", fix=fix),)


def gdr_disabled(scene: Scene, choice: Choice) -> tuple[Say, ...]:
    if not listen(scene.symptoms).gdr_disabled:
        return ()
    text = "A run reported GPU Direct RDMA as disabled: neither peer memory nor dma-buf was visible to NCCL"
    return (
        say("GDR_OFF", text, outcome="warn", fix="On the host: modprobe nvidia_peermem, or open GPU kernel modules"),
    )


def mixed_networks(scene: Scene, choice: Choice) -> tuple[Say, ...]:
    """A run failed while NCCL was free to take ports of another network."""
    stray = tuple(one for one in choice.unfiltered if one not in choice.chosen)
    if not stray or not choice.decided or scene.user_value("NCCL_IB_HCA") or not listen(scene.symptoms).failed:
        return ()
    text = f"A run failed while NCCL was free to take {listed(names(stray))}, which are of another network"
    fix = "Let rig write NCCL_IB_HCA, or exclude them"
    return (
        say(
            "FRONT_END_NIC_EXCLUDED",
            text,
            verdict="misconfigured",
            domain="user",
            subject=listed(names(stray)),
            fix=fix,
        ),
    )


def settings(scene: Scene, choice: Choice) -> tuple[Setting, ...]:
    """What the fabric's owner asks for, in the platform file."""
    platform, found = scene.platform, []
    if platform is None:
        return ()
    if choice.chosen:
        if isolated(scene) == "platform file" and len(choice.chosen) > 1:
            found.append(_asked("NCCL_CROSS_NIC", "0", "rails are isolated"))
        roce = any(one.port.link_layer == "Ethernet" for one in choice.chosen)
        if platform.fabric.traffic_class is not None and roce:
            found.append(_asked("NCCL_IB_TC", str(platform.fabric.traffic_class), "traffic class of the fabric"))
        if platform.fabric.service_level is not None:
            found.append(_asked("NCCL_IB_SL", str(platform.fabric.service_level), "service level of the fabric"))
        if platform.fabric.pkey is not None and not roce:
            found.append(_asked("NCCL_IB_PKEY", platform.fabric.pkey, "partition of the fabric"))
    named = {one.name for one in found}
    return (
        *found,
        *(_asked(name, value, "the provider asks for it") for name, value in platform.env if name not in named),
    )


def _asked(name: str, value: str, reason: str) -> Setting:
    return Setting(name, value, "platform file", reason)


RULES: tuple[Callable[[Scene, Choice], tuple[Say, ...]], ...] = (rails, route, v2_blocked, gdr_disabled, mixed_networks)

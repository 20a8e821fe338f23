"""The RoCE address of each chosen port: what is right, whether NCCL would find it, and what to write.

One NCCL_IB_GID_INDEX serves all HCAs of a process, so it is written only where they agree.
"""

from rig.lean import NamedTuple
from rig.plan import Setting
from rig.plan.gid import ipv6_only, is_link_local, nccl_choice, right_gid, routable, starts_late, v1_only, visible
from rig.plan.hca import Choice
from rig.plan.nccl_facts import Candidate, Say, Scene, listed, names, say
from rig.plan.nccl_vars import GID_DETECTION, GID_WALK_FIXED, dotted

USUAL_INDEX = 3  # first IPv4 RoCE v2 entry of an mlx5 port in the host's namespace


class GidPlan(NamedTuple):
    """The ports that stay (a GID conflict may narrow them), the right index of each HCA (of those
    too that were narrowed away), and the settings."""

    choice: Choice
    indexes: tuple[tuple[str, int], ...] = ()
    settings: tuple[Setting, ...] = ()
    said: tuple[Say, ...] = ()


def subnet_of(scene: Scene, one: Candidate) -> str | None:
    """Subnet that the platform file gives to a port."""
    for nic in scene.platform.nics if scene.platform else ():
        same = nic.name == one.hca.name or (nic.bus_id is not None and nic.bus_id == one.hca.bus_id)
        if same and nic.port == one.port.number:
            return nic.subnet
    return None


def without_v1_only(choice: Choice) -> tuple[Choice, tuple[Say, ...]]:
    """Drop devices whose table has no v2 entry while others have one: v1 and v2 do not mix in one job."""
    roce = [one for one in choice.chosen if one.port.link_layer == "Ethernet" and one.port.gids]
    old = {one.hca.name for one in roce if v1_only(one.port)}
    if not old:
        return choice, ()
    text = f"{listed(sorted(old))} has only RoCE v1 addresses, which are not routed"
    fix = "Switch RoCE v2 on, or leave the card to other traffic"
    said = [say("ROCE_V1_ONLY_DEVICE", text, verdict="degraded", subject=listed(sorted(old)), fix=fix)]
    rest = tuple(one for one in choice.chosen if one.hca.name not in old)
    if not rest:
        return choice, tuple(said)
    text = f"No GID index is right for all of {listed(names(choice.chosen), 16)}"
    said.append(
        say("GID_PER_HCA_CONFLICT", text, verdict="degraded", got=None, fix=f"Use {listed(names(rest), 16)} only")
    )
    return choice._replace(chosen=rest), tuple(said)


def plan_gids(scene: Scene, choice: Choice) -> GidPlan:
    """Choose per HCA, then decide what one variable can say."""
    choice, said = without_v1_only(choice)
    right = {}
    for one in choice.chosen:
        if one.port.link_layer != "Ethernet":
            continue
        entry = right_gid(one.port, scene.machine.netdevs, subnet_of(scene, one))
        if entry is not None:
            right[one] = entry.index
    if not right:
        return GidPlan(choice, said=(*said, *_without_gid(choice)))
    index = tuple((one.hca.name, found) for one, found in right.items())
    if len(set(right.values())) > 1:
        choice, right, more = _conflict(scene, choice, right)
        said = (*said, *more)
    said = (*said, *_remarks(scene, right))
    return GidPlan(choice, index, _settings(scene, right), said)


def _without_gid(choice: Choice) -> tuple[Say, ...]:
    """RoCE ports with a readable table in which nothing is fit for use."""
    bad = tuple(
        one
        for one in choice.chosen
        if one.port.link_layer == "Ethernet" and one.port.gids and not v1_only(one.port) and visible(one.port, ())
    )
    if not bad or any(routable(entry) for one in bad for entry in one.port.gids):
        return ()
    text = f"{listed(names(bad))} has link-local addresses only: RoCE cannot leave the segment"
    return (say("GID_LINK_LOCAL", text, verdict="misconfigured", fix="Give the interface an IPv4 address"),)


def _conflict(
    scene: Scene, choice: Choice, right: dict[Candidate, int]
) -> tuple[Choice, dict[Candidate, int], tuple[Say, ...]]:
    """HCAs that need different indexes. NCCL that walks the table is left alone; older ones get the largest agreeing
    group."""
    found = {one.hca.name: index for one, index in right.items()}
    walks = scene.version is None or (
        scene.version >= GID_DETECTION
        and all(nccl_choice(one.port, scene.version) == index for one, index in right.items())
    )
    text = "The HCAs need different GID indexes: " + listed((f"{name} {index}" for name, index in found.items()), 16)
    if walks:
        fix = f"Leave NCCL_IB_GID_INDEX unset and use NCCL {dotted(GID_DETECTION)} or newer, which detects it per HCA"
        verdict = "degraded" if scene.version is None else None
        return choice, right, (say("GID_PER_HCA_CONFLICT", text, verdict=verdict, got=found, fix=fix),)
    values = list(right.values())
    common = max(dict.fromkeys(values), key=values.count)
    kept = {one: index for one, index in right.items() if index == common}
    chosen = tuple(one for one in choice.chosen if one not in right or one in kept)
    fix = f"Only {listed(names(chosen), 16)} are used; NCCL {dotted(GID_WALK_FIXED)} or newer can use all"
    said = say("GID_PER_HCA_CONFLICT", text, verdict="degraded", got=found, fix=fix)
    return choice._replace(chosen=chosen), kept, (said,)


def _remarks(scene: Scene, right: dict[Candidate, int]) -> tuple[Say, ...]:
    """What is unusual about the tables."""
    ports = [one.port for one in right]
    said = []
    zero = [one.port.name for one in right if _would_take_zero(scene, one)]
    if zero:
        text = f"Left alone NCCL {dotted(scene.version)} would take GID entry 0 of {listed(zero)}, which is link-local"
        said.append(say("GID_LINK_LOCAL", text, subject=listed(zero)))
    if late := [port.name for port in ports if starts_late(port)]:
        text = f"The GID table of {listed(late)} has gaps: its first entries belong to other namespaces"
        said.append(say("GID_SPARSE", text, subject=listed(late)))
    elif odd := {index for index in right.values() if index != USUAL_INDEX}:
        text = f"The right GID index is {listed(sorted(odd))} here, not {USUAL_INDEX}: the order is the vendor's"
        said.append(say("GID_VENDOR_ORDER", text, got=sorted(odd)))
    if v6 := [port.name for port in ports if ipv6_only(port)]:
        text = f"{listed(v6)} has no IPv4 address: NCCL's default keeps index 0, which is link-local"
        said.append(say("GID_IPV6_ONLY", text, subject=listed(v6)))
    broken = [port.name for port in ports if port.gids_refused]
    if broken and scene.version is not None and GID_DETECTION <= scene.version < GID_WALK_FIXED:
        text = f"NCCL {dotted(scene.version)} aborts on GID entries of other namespaces ({listed(broken)})"
        fix = f"Keep NCCL_IB_GID_INDEX set, or use NCCL {dotted(GID_WALK_FIXED)} or newer"
        said.append(say("NCCL_GID_WALK_BUG", text, verdict="degraded", domain="image", fix=fix))
    return tuple(said)


def _would_take_zero(scene: Scene, one: Candidate) -> bool:
    """A version before the GID walk, and a link-local first entry."""
    if (scene.version is not None and scene.version >= GID_DETECTION) or scene.user_value("NCCL_IB_GID_INDEX"):
        return False
    return any(gid.index == 0 and is_link_local(gid.gid) for gid in one.port.gids)


def _settings(scene: Scene, right: dict[Candidate, int]) -> tuple[Setting, ...]:
    """The index where all agree and this NCCL would not find it itself; the address family where only that is
    missing."""
    indexes = set(right.values())
    if len(indexes) != 1:
        return ()
    index = indexes.pop()
    version = scene.version
    if version is not None and all(nccl_choice(one.port, version) == index for one in right):
        return ()
    if version is not None and version >= GID_DETECTION:
        subnets = {subnet_of(scene, one) for one in right}
        subnet = subnets.pop() if len(subnets) == 1 else None
        if all(nccl_choice(one.port, version, family="AF_INET6", subnet=subnet) == index for one in right):
            return _family(subnet)
    reason = f"RoCE v2 address of {listed(names(tuple(right)))} in this namespace"
    return (Setting("NCCL_IB_GID_INDEX", str(index), "detection", reason),)


def _family(subnet: str | None) -> tuple[Setting, ...]:
    reason = "the RoCE ports have IPv6 addresses only, and NCCL looks for IPv4"
    family = Setting("NCCL_IB_ADDR_FAMILY", "AF_INET6", "detection", reason)
    if subnet is None:
        return (family,)
    return (family, Setting("NCCL_IB_ADDR_RANGE", subnet, "platform file", "subnet of the RoCE ports"))

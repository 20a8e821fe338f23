"""The user's own variables against the facts. They win; where they contradict what was found, a line says so.

`want` of each finding is the value that would be right (None: unset), so that it can be shown and copied.
"""

from rig.lean import Callable, NamedTuple
from rig.plan.gdr import DEFAULT_LEVEL, parse_level
from rig.plan.gid import V1, is_link_local
from rig.plan.hca import Choice
from rig.plan.nccl_facts import Say, Scene, listed, names, say
from rig.plan.nccl_heard import listen
from rig.plan.nccl_match import exact_list, matches
from rig.plan.nccl_paths import rank
from rig.plan.nccl_vars import GID_DETECTION, unread_by_user
from rig.plan.socket import nccl_interfaces, reachable_addresses


class Right(NamedTuple):
    """The plan's own answers, against which the user's values are held."""

    choice: Choice
    gid_index: tuple[tuple[str, int], ...] = ()
    socket_if: str | None = None


def gid_index(scene: Scene, right: Right) -> tuple[Say, ...]:
    """NCCL_IB_GID_INDEX that points to a v1, link-local, foreign or empty entry of a chosen RoCE port."""
    value = scene.user_value("NCCL_IB_GID_INDEX")
    if value is None or not value.isascii() or not value.isdigit():
        return ()
    wrong: dict[str, list[str]] = {}
    for one in right.choice.chosen:
        port = one.port
        if port.link_layer != "Ethernet" or not port.gids:
            continue
        entry = next((gid for gid in port.gids if gid.index == int(value)), None)
        if entry is None:
            wrong.setdefault("GID_LINK_LOCAL", []).append(f"{port.name} has no entry {value} in this namespace")
        elif entry.type == V1:
            wrong.setdefault("GID_ROCE_V1", []).append(f"{port.name}: entry {value} is RoCE v1, which is not routed")
        elif is_link_local(entry.gid):
            wrong.setdefault("GID_LINK_LOCAL", []).append(f"{port.name}: entry {value} is link-local")
    want = dict(right.gid_index)
    common = str(next(iter(want.values()))) if len(set(want.values())) == 1 else None
    fix = f"NCCL_IB_GID_INDEX={common}" if common else "Unset NCCL_IB_GID_INDEX"
    return tuple(
        say(
            code,
            listed(told, 2),
            verdict="misconfigured",
            domain="user",
            subject="NCCL_IB_GID_INDEX",
            want=common,
            got=value,
            fix=fix,
        )
        for code, told in wrong.items()
    )


def hca_filter(scene: Scene, right: Right) -> tuple[Say, ...]:
    """NCCL_IB_HCA that matches nothing, too much (a prefix), or other ports than the fabric's."""
    value = scene.user_value("NCCL_IB_HCA")
    usable = right.choice.unfiltered
    if value is None or not usable:
        return ()
    taken = tuple(one for one in usable if matches(value, one.hca.name, one.port.number))
    wanted = names(right.choice.chosen)
    want = exact_list(wanted)
    if not taken:
        text = f"NCCL_IB_HCA={value} matches none of {listed(names(usable))}: NCCL falls back to sockets silently"
        return (_user("HCA_FILTER_EMPTY", text, "NCCL_IB_HCA", want, value, "misconfigured"),)
    extra = tuple(one for one in taken if one not in right.choice.chosen)
    if extra and right.choice.decided:
        text = f"NCCL_IB_HCA={value} also takes {listed(names(extra))}, which are not of the fabric"
        exact = value[:1] not in "^=" and not any(matches("=" + value, one.hca.name, one.port.number) for one in extra)
        code = "HCA_NEEDS_EXACT" if exact else "HCA_FILTER_TOO_WIDE"
        return (_user(code, text, "NCCL_IB_HCA", want, value, "misconfigured"),)
    if len(taken) < len(right.choice.chosen):
        text = f"NCCL_IB_HCA={value} uses {len(taken)} of {len(right.choice.chosen)} ports of the fabric"
        return (_user("HCA_FILTER_NARROW", text, "NCCL_IB_HCA", want, value, None),)
    return ()


def socket_filter(scene: Scene, right: Right) -> tuple[Say, ...]:
    """NCCL_SOCKET_IFNAME that matches nothing, brings loopback back, or names an interface without a usable address."""
    value = scene.user_value("NCCL_SOCKET_IFNAME")
    if value is None or not scene.machine.netdevs:
        return ()
    taken = nccl_interfaces(scene.machine, value, scene.version)
    want = exact_list((right.socket_if,)) if right.socket_if else None
    name = "NCCL_SOCKET_IFNAME"
    if not taken:
        text = f"{name}={value} matches no interface that has an address: NCCL stops"
        return (_user("SOCKET_IF_NOT_FOUND", text, name, want, value, "misconfigured"),)
    first = next(dev for dev in scene.machine.netdevs if dev.name == taken[0])
    if first.name == "lo" or first.kind == "loopback":
        text = f"{name}={value} makes NCCL bootstrap on {first.name}: other nodes cannot reach it"
        verdict = None if scene.nodes == 1 else "misconfigured"
        return (_user("SOCKET_IF_LOOPBACK", text, name, want, value, verdict),)
    if right.socket_if not in (None, first.name) and not reachable_addresses(first):
        text = f"{name}={value} makes NCCL bootstrap on {first.name}, which has link-local addresses only"
        return (_user("SOCKET_IF_AMBIGUOUS", text, name, want, value, "misconfigured"),)
    return ()


def levels(scene: Scene, right: Right) -> tuple[Say, ...]:
    """Level variables that NCCL ignores silently (NODE), or that are narrower than its own default."""
    said = []
    for name in ("NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL"):
        value = scene.user_value(name)
        if value is None:
            continue
        level = parse_level(value)
        if level is None:
            text = f"{name}={value} is ignored: NCCL knows LOC, NVL, PIX, PXB, PHB and SYS (nvidia-smi's NODE is PHB)"
            said.append(
                _user("LEVEL_UNKNOWN", text, name, "PHB" if value.upper() == "NODE" else None, value, "misconfigured")
            )
        elif name == "NCCL_NET_GDR_LEVEL" and rank(level) < rank(DEFAULT_LEVEL) and right.choice.chosen:
            text = (
                f"{name}={value} is narrower than the default {DEFAULT_LEVEL}: pairs behind two switches lose GPUDirect"
            )
            said.append(_user("GDR_LEVEL_NARROW", text, name, None, value, "misconfigured"))
    return tuple(said)


def transport(scene: Scene, right: Right) -> tuple[Say, ...]:
    """NCCL_IB_DISABLE beside usable HCAs; a socket family without an address."""
    said = []
    if scene.user_value("NCCL_IB_DISABLE") == "1" and right.choice.chosen:
        text = f"NCCL_IB_DISABLE=1 leaves {listed(names(right.choice.chosen))} unused: TCP only"
        said.append(_user("IB_DISABLED_BY_USER", text, "NCCL_IB_DISABLE", None, "1", "degraded"))
    family = scene.user_value("NCCL_IB_ADDR_FAMILY")
    if family not in (None, "AF_INET", "AF_INET6"):
        text = f"NCCL_IB_ADDR_FAMILY={family} is ignored by NCCL: it knows AF_INET and AF_INET6, in capitals"
        said.append(_user("ADDR_FAMILY_UNKNOWN", text, "NCCL_IB_ADDR_FAMILY", None, family, "misconfigured"))
    return tuple(said)


def unread_files(scene: Scene, right: Right) -> tuple[Say, ...]:
    """Variables that stand in files which launched ranks do not read."""
    lost = sorted(name for name in scene.unread if name.startswith("NCCL_") and name not in scene.user)
    if not lost and not listen(scene.symptoms).not_propagated:
        return ()
    what = listed(lost or sorted(scene.user)) or "A variable"
    text = f"{what} is set where launched ranks do not read it (/etc/environment and profiles need a login)"
    fix = "Leave it to this node's nccl.conf, which rig writes, or export it in the launching shell"
    return (say("ENV_NOT_PROPAGATED", text, verdict="misconfigured", domain="user", got=lost, fix=fix),)


def default_gid(scene: Scene, right: Right) -> tuple[Say, ...]:
    """A run that ended in retries (or failed, with an old NCCL) over RoCE with the default index: it used entry 0."""
    heard = listen(scene.symptoms)
    old = scene.version is not None and scene.version < GID_DETECTION and heard.failed
    if not (heard.retries_exceeded or old) or scene.user_value("NCCL_IB_GID_INDEX"):
        return ()
    zero = [
        one.port.name
        for one in right.choice.chosen
        if one.port.link_layer == "Ethernet" and any(gid.index == 0 and is_link_local(gid.gid) for gid in one.port.gids)
    ]
    if not zero:
        return ()
    text = f"Retries exceeded with the default GID index: entry 0 of {listed(zero)} is link-local"
    want = str(right.gid_index[0][1]) if right.gid_index else None
    return (_user("GID_LINK_LOCAL", text, "NCCL_IB_GID_INDEX", want, None, "misconfigured"),)


def _user(code: str, text: str, name: str, want: str | None, got: str | None, verdict: str | None) -> Say:
    fix = f"{name}={want}" if want is not None else f"Unset {name}"
    return say(code, text, verdict=verdict, outcome="warn", domain="user", subject=name, want=want, got=got, fix=fix)


def not_read(scene: Scene, right: Right) -> tuple[Say, ...]:
    return unread_by_user(scene.user, scene.version)


RULES: tuple[Callable[[Scene, Right], tuple[Say, ...]], ...] = (
    gid_index,
    hca_filter,
    socket_filter,
    levels,
    transport,
    unread_files,
    default_gid,
    not_read,
)

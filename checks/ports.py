"""RDMA ports that are up: counters, flaps, firmware."""

from checks import CannotTell, Need, check, known, say
from checks.needs import HOST, KERNEL_LOG, RAILS, RDMA, ROCE
from checks.rails import fabric, port_health, rails
from rig.finding import Finding
from rig.lean import Iterator
from rig.plan.hca import is_efa, netdevs_of
from rig.plan.nccl_facts import listed
from rig.snapshot import Snapshot

CABLE = "Ask the host to reseat or replace the cable and its optics"
DAY_S = 86400.0
FLAPS_A_DAY = 5  # Azure's limit
FLAPS_AT_START = 4  # a link goes up and down while driver and switch settle
# Lifetime counts from which a port is told: own thresholds, far beyond what a healthy one gathers.
MANY = {
    "symbol_error": 10_000,
    "link_error_recovery": 100,
    "local_link_integrity_errors": 100,
    "excessive_buffer_overrun_errors": 100,
    "port_rcv_errors": 1_000,
    "port_rcv_remote_physical_errors": 1_000,
}
LOST = ("out_of_sequence", "packet_seq_err", "implied_nak_seq_err", "local_ack_timeout_err", "roce_adp_retrans")
LOST_MANY = 100_000
LOST_RATIO = 100  # against the median of the siblings
WIRED = Need(
    "wired",
    "no RDMA device here that counts errors of a wire (EFA shows no counters, no flaps and no firmware)",
    lambda now: any(not is_efa(hca) for hca in fabric(now)),
)


@check(at="quick", needs=(RDMA, WIRED, HOST), domain="host", severity="warn", fix=CABLE)
def port_error_counters_are_low(now: Snapshot) -> Iterator[Finding]:
    """No port has counted errors of the wire far beyond what a healthy one gathers.

    The counters never go down, so only large numbers are told, and each is read once: a card that is asked too often
    fills the kernel's log.

    Symptom: retransmits, `local QP operation error`, timeouts now and then.
    Source: ports/N/counters; leptonai/gpud#1164.
    """
    read = [one for one in port_health(now) if one.counters]
    for one in known(read or None, "the counters of the RDMA ports"):
        for name, count in one.counters:
            if count >= MANY.get(name, count + 1):
                yield say(f"{one.hca}:{one.port} {name}: {count}", f"{one.hca}:{one.port}", f"< {MANY[name]}", count)


@check(
    at="quick",
    needs=(ROCE, HOST),
    domain="host",
    severity="warn",
    fix="Ask whoever runs the fabric to look at that rail",
)
def no_rail_loses_more_than_its_siblings(now: Snapshot) -> Iterator[Finding]:
    """No RoCE rail has seen far more lost packets than the others of this machine.

    All rails carry the same traffic, so the others are the measure: a hundred times their median, and many.

    Symptom: one slow rail, bandwidth that swings.
    Source: ports/N/hw_counters/{out_of_sequence,packet_seq_err,local_ack_timeout_err}.
    """
    read = [one for one in port_health(now) if one.hw_counters]
    counted = {f"{one.hca}:{one.port}": sum(n for name, n in one.hw_counters if name in LOST) for one in read}
    ordered = sorted(known(counted or None, "the RoCE counters").values())
    usual = ordered[(len(ordered) - 1) // 2]
    for name, count in counted.items():
        if count >= LOST_MANY and count > LOST_RATIO * usual:
            text = f"{name}: {count} packets lost or out of sequence, {usual} on the median rail"
            yield say(text, name, f"about {usual}", count)


@check(at="quick", needs=(RDMA, WIRED, HOST), domain="host", severity="warn", fix=CABLE)
def links_do_not_flap(now: Snapshot) -> Iterator[Finding]:
    """No rail's link goes down now and then.

    Counted are losses of the carrier since the machine started, without the few of a start, per day.

    Symptom: NCCL timeouts after hours or days, `Work completion error 12`.
    Source: /sys/class/net/DEV/carrier_changes, counters/link_downed.
    """
    days = max(known(now.host.uptime_s if now.host else None, "the time since start") / DAY_S, 1.0)
    told = False
    for one in port_health(now):
        downs = [count for name, count in one.counters if name == "link_downed"]
        downs += [one.carrier_changes // 2] if one.carrier_changes is not None else []
        told = told or bool(downs)
        rate = max(0, max(downs, default=0) - FLAPS_AT_START) / days
        if rate >= FLAPS_A_DAY:
            text = f"{one.hca}:{one.port} lost its link {max(downs)} times in {days:.0f} days"
            yield say(text, f"{one.hca}:{one.port}", f"< {FLAPS_A_DAY} a day", round(rate, 1))
    if not told:
        raise CannotTell("how often the links went down: no counter tells")


@check(at="quick", needs=(RAILS, KERNEL_LOG), domain="host", severity="warn", fix=CABLE)
def kernel_reports_no_lost_link(now: Snapshot) -> Iterator[Finding]:
    """The kernel did not report the same rail's link as lost three times or more.

    Symptom: `mlx5_core ...: Link down`, then NCCL timeouts.
    Source: kernel log; leptonai/gpud counts three in twelve hours.
    """
    names = {name: one.port.name for one in rails(now) for name in (*netdevs_of(one.port), one.hca.name)}
    lost: dict[str, int] = {}
    for event in known(now.host.kernel_log if now.host else None, "the kernel's log"):
        if event.kind == "link-lost" and event.subject in names:
            lost[names[event.subject]] = lost.get(names[event.subject], 0) + 1
    for name, count in lost.items():
        if count >= 3:
            yield say(f"{name} lost its link {count} times", name, "< 3", count, evidence="kernel log")


@check(
    at="quick",
    needs=(RDMA, WIRED, HOST),
    domain="host",
    severity="warn",
    fix="Ask the host to flash one firmware (flint)",
)
def hcas_have_one_firmware(now: Snapshot) -> Iterator[Finding]:
    """HCAs of one model have the same firmware.

    Symptom: one rail that is slower, or hangs, and no counter says why.
    Source: /sys/class/infiniband/D/fw_ver.
    """
    models = {hca.name: (hca.device, hca.model) for hca in fabric(now)}
    found: dict[object, dict[str, list[str]]] = {}
    for one in port_health(now):
        if one.firmware is not None:
            found.setdefault(models[one.hca], {}).setdefault(one.firmware, []).append(one.hca)
    for versions in known(found or None, "the firmware of the HCAs").values():
        if len(versions) > 1:
            words = "; ".join(f"{version}: {listed(dict.fromkeys(names))}" for version, names in versions.items())
            yield say(f"HCAs of one model with different firmware: {words}", "fw_ver", "one version", sorted(versions))

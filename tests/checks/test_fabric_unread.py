"""What an unprivileged container, the kernel's own driver or EFA never shows is skipped, and the reason is told."""

import pytest

from checks import Check, Need, evaluate
from checks.ports import hcas_have_one_firmware, links_do_not_flap, port_error_counters_are_low
from checks.roce import roce_traffic_is_in_the_lossless_class
from checks.topology import bridges_do_not_redirect_peer_traffic
from rig.snapshot import Snapshot
from tests.checks.snapshots import h100, healthy, roce
from tests.checks.twin import changed
from tests.checks.twins_roce import all_ports

UNPRIVILEGED = changed(h100(), machine__pci=tuple(one._replace(acs_redirects=None) for one in h100().machine.pci))
EFA = all_ports(healthy("aws-p4d-efa"), counters=(), hw_counters=(), firmware=None, carrier_changes=None)
CASES = (
    (bridges_do_not_redirect_peer_traffic, h100(), UNPRIVILEGED, "CAP_SYS_ADMIN"),
    (roce_traffic_is_in_the_lossless_class, roce(), all_ports(roce(), ecn=()), "vendor's driver"),
    (port_error_counters_are_low, h100(), EFA, "EFA"),
    (links_do_not_flap, h100(), EFA, "EFA"),
    (hcas_have_one_firmware, h100(), EFA, "EFA"),
)


@pytest.mark.parametrize(("one", "shown", "hidden", "reason"), CASES, ids=[case[0].id for case in CASES])
def test_what_cannot_be_read_here_is_no_reason_to_wait(
    one: Check, shown: Snapshot, hidden: Snapshot, reason: str
) -> None:
    assert evaluate(one, shown).outcome == "pass"
    result = evaluate(one, hidden)
    assert result.outcome == "skip" and reason in result.why


@pytest.mark.parametrize("one", [case[0] for case in CASES], ids=[case[0].id for case in CASES])
def test_its_absence_can_be_made_a_failure(one: Check) -> None:
    hidden = next(case[2] for case in CASES if case[0] is one)
    needs: list[Need] = [need for need in one.needs if not need.met(hidden)]
    assert [need.name for need in needs] == [evaluate(one, hidden).missing]
    assert evaluate(one, hidden, frozenset({needs[0].name})).outcome == "fail"

"""Machines on paper with nothing wrong around them: no check of the level quick speaks, or is left without an answer.

What these machines have and lack is their kind: EFA instead of verbs, virtual functions in a pod, a guest's flat PCI
tree, consumer cards, no GPU at all.
"""

import pytest

from checks.catalogue import checks_of
from checks.running import evaluate_all
from rig.expected import parse_expected
from rig.snapshot import Snapshot
from tests.checks.snapshots import healthy
from tests.test_machine_plans import NAMES

A100 = "gpus=8,model=A100,memory_gb=40,nvlinks=12"
H100 = "model=H100,memory_gb=80,nvlinks=18"
# What could have been sold as each, in the words of RIG_EXPECT.
SOLD = {
    "aws-p4d-efa": f"{A100},hcas=4",  # no rate: rails are ports of verbs, and EFA has none of those
    "dgx-a100": f"{A100},hcas=8,rate=200,gdr=1",
    "h100-roce-bonds": f"gpus=8,{H100},hcas=8,rate=400,gdr=1",
    "hgx-h100-ib": f"gpus=8,{H100},hcas=8,rate=400,gdr=1",
    "nothing": "gpus=0,hcas=0,gdr=0",
    "pod-sriov-vfs": f"gpus=8,{H100},hcas=4,rate=400",  # of twelve that sysfs shows four were given to the pod
    "rtx4090-no-p2p": "gpus=8,model=4090,memory_gb=24,nvlinks=0,hcas=0,gdr=0",
    "vm-flat-pci": f"gpus=4,{H100},hcas=4",
}


def blamed(now: Snapshot) -> dict[str, str]:
    """Checks that fail, or that would be failures and cannot tell, with their words. Another machine's image has no
    pins of ours."""
    now = now._replace(pins={})
    return {
        one.check.id: one.result.why or "; ".join(finding.text for finding in one.result.findings)
        for one in evaluate_all(checks_of("quick"), now)
        if one.result.outcome == "fail" or (one.result.outcome == "unknown" and one.check.severity == "fail")
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_without_a_promise_is_not_blamed(name: str) -> None:
    assert blamed(healthy(name)) == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_that_is_what_was_sold_is_not_blamed(name: str) -> None:
    assert blamed(healthy(name)._replace(expected=parse_expected(SOLD[name]))) == {}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "nothing"])
def test_the_same_machine_is_blamed_where_more_was_sold(name: str) -> None:
    more = parse_expected(SOLD[name])._replace(gpus=9, hcas=99)
    assert {"expected_gpus_are_here", "hcas_are_as_many_as_sold"} <= set(blamed(healthy(name)._replace(expected=more)))

"""A pod that was given a host's virtual functions sees the physical ones too, and is not blamed for them."""

from checks import evaluate
from checks.identity import libibverbs_lists_every_hca
from tests.checks.snapshots import healthy
from tests.checks.twin import changed


def test_devices_of_the_host_need_not_be_listed() -> None:
    pod = healthy("pod-sriov-vfs")
    listed = tuple(hca.name for hca in pod.machine.hcas if hca.opens)
    given = changed(pod, probes__library_identity__data__verbs_devices=listed)
    assert 0 < len(listed) < len(pod.machine.hcas)
    assert evaluate(libibverbs_lists_every_hca, given).outcome == "pass"
    assert evaluate(
        libibverbs_lists_every_hca, changed(given, probes__library_identity__data__verbs_devices=())
    ).findings

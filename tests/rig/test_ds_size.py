"""The bucket formulas by themselves: what make bench-tune's emulator measured."""

from math import sqrt

import pytest

from rig.plan.ds_inputs import DsInputs
from rig.plan.ds_link import Cost
from rig.plan.ds_model import Model
from rig.plan.ds_size import STEP, Pace, overlapped_bucket, reduce_bucket

ALPHA, RATE, BYTES = 0.010, 12.5e6, float(16 << 20)  # 10 ms, 100 Mbit/s, gradients
LINK = Cost(ALPHA, 1 / RATE, RATE, ALPHA * RATE, "measured")
INPUTS = DsInputs(model=Model(params=4 << 20), dtype_bytes=4)


def chosen_bytes(gamma: float | None) -> int:
    return overlapped_bucket(INPUTS, Pace(LINK, gamma, None, BYTES, None), STEP).elements * 4


def test_bound_by_the_link_the_optimum_is_not_cut_for_the_last_bucket() -> None:
    """A cap of 2 % on the last bucket cost a factor of two in the emulator at 400 Mbit/s."""
    gamma = 0.5 / RATE
    assert chosen_bytes(gamma) == pytest.approx(sqrt(ALPHA * BYTES / gamma), abs=4 * STEP)


def test_bound_by_computing_a_bucket_hides_its_latency_twice_over() -> None:
    gamma = 2 / RATE
    assert chosen_bytes(gamma) == pytest.approx(2 * ALPHA / (gamma - 1 / RATE), abs=4 * STEP)


def test_where_the_pace_is_unknown_the_last_bucket_stays_small() -> None:
    assert chosen_bytes(None) == pytest.approx(0.02 * BYTES, abs=4 * STEP)


def test_on_cpu_nothing_overlaps_and_one_message_is_best() -> None:
    now = Pace(LINK, 0.5 / RATE, None, BYTES, None)
    assert reduce_bucket(INPUTS._replace(accelerator="cpu"), now).elements * 4 == BYTES

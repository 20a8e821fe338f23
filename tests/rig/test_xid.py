"""What Xid codes mean, and who must act."""

import pytest

from rig.xid import ACTIONS, APP, ENDING, FATAL, INFO, NVLINK_UNITS, REMEDIES, action_of, explain, recovery_of


def test_a_code_stands_in_one_table_and_has_a_remedy() -> None:
    tables = (FATAL, APP, INFO, NVLINK_UNITS)
    codes = [code for table in tables for code in table]
    assert len(codes) == len(set(codes))
    assert {explain(code, "Fatal").remedy for code in codes} | set(ACTIONS) | ENDING <= set(REMEDIES)


def test_no_advice_stands_for_two_actions() -> None:
    assert len({REMEDIES[action] for action in ACTIONS}) == len(set(ACTIONS))


@pytest.mark.parametrize(
    ("code", "kind", "remedy"),
    [
        (79, "fatal", "reboot"),
        (151, "fatal", "reboot"),
        (48, "fatal", "reset"),
        (95, "fatal", "reset"),
        (119, "fatal", "reset"),
        (120, "fatal", "reset"),
        (74, "fatal", "nvlink"),
        (54, "fatal", "power"),
        (13, "app", "job"),
        (31, "app", "job"),
        (43, "app", "job"),
        (45, "app", "job"),
        (94, "app", "job"),
        (63, "info", "watch"),
        (154, "info", "none"),
        (999, "unknown", "report"),
    ],
)
def test_codes_have_a_kind_and_a_remedy(code: int, kind: str, remedy: str) -> None:
    found = explain(code)
    assert (found.kind, found.remedy) == (kind, remedy)


def test_nvlink_lines_say_themselves_how_bad_they_are() -> None:
    assert explain(149, "149, NETIR_LINK_EVT Fatal XC0").kind == "fatal"
    assert explain(149, "149, NETIR_LINK_EVT Nonfatal XC0").kind == "info"
    assert explain(149).kind == "info"


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", "none"),
        ("154, GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)", "reset"),
        ("154, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)", "reboot"),
        ("154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "drain-and-reset"),
        ("154, GPU recovery action changed from 0x0 (None) to 0x10", "action 16"),
        ("154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", "drain"),
        ("154, GPU recovery action changed from 0x0 (None) to 0xZ (None)", None),
        ("154, GPU recovery action changed from 0x0 (None) to 0x", None),
        ("154, GPU recovery action changed from 0x0 (None) to 0x123456789", None),
        ("154, something else", None),
    ],
)
def test_the_recovery_action_of_a_line(text: str, action: str | None) -> None:
    assert recovery_of(text) == action


def test_an_action_of_a_newer_driver_is_kept_by_its_number() -> None:
    assert [action_of(number) for number in (0, 4, 7, 8, 4711)] == [
        "none",
        "drain-and-reset",
        "reboot",
        "action 8",
        "action 4711",
    ]

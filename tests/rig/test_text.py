"""What the kernel writes about PCIe links; no speed and no width is made up."""

import pytest

from rig.text import parse_speed, parse_width


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("16.0 GT/s PCIe\n", 16.0),
        ("32.0 GT/s PCIe", 32.0),
        ("8 GT/s", 8.0),
        ("2.5 GT/s PCIe\n", 2.5),
        ("64.0 GT/s PCIe\n", 64.0),
        ("Unknown speed\n", None),
        ("Unknown\n", None),
        ("-16.0 GT/s", None),
        ("1e9 GT/s", None),
        ("9999 GT/s", None),
        ("1.2.3 GT/s", None),
        (". GT/s", None),
        ("x GT/s", None),
        ("0 GT/s", None),
        ("16.0", None),
        ("16.0 GB/s PCIe", None),
        ("\u0663 GT/s", None),
        ("\0\1\2", None),
        ("", None),
        (None, None),
    ],
)
def test_speeds(text: str | None, speed: float | None) -> None:
    assert parse_speed(text) == speed


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("16\n", 16),
        ("1", 1),
        ("0\n", None),
        ("255\n", None),
        ("63", None),
        ("-1", None),
        ("x16", None),
        ("3", None),
        ("1_6", None),
        (None, None),
    ],
)
def test_widths(text: str | None, width: int | None) -> None:
    assert parse_width(text) == width

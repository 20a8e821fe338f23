"""Fixtures of the family pcie."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

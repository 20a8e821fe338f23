"""Fixtures of the family network."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

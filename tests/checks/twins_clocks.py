"""Fixtures of the family clocks."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

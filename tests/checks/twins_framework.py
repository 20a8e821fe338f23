"""Fixtures of the family framework."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

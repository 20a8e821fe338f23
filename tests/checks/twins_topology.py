"""Fixtures of the family topology."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

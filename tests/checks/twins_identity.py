"""Fixtures of the family identity."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

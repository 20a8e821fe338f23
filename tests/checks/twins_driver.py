"""Fixtures of the family driver."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

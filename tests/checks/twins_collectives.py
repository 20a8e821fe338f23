"""Fixtures of the family collectives."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

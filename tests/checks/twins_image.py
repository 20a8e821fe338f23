"""Fixtures of the family image."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

"""Fixtures of the family performance."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

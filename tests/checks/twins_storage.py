"""Fixtures of the family storage."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

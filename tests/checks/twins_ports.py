"""Fixtures of the family ports."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

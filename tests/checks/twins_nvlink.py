"""Fixtures of the family nvlink."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

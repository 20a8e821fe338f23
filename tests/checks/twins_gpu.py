"""Fixtures of the family gpu."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

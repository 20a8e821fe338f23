"""Fixtures of the family memory."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

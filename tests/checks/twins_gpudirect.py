"""Fixtures of the family gpudirect."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

"""Fixtures of the family nccl."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

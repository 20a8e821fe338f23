"""Fixtures of the family rdma."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()

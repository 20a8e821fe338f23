"""Checks of the family rdma."""

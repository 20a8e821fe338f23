"""Checks of the family nccl."""

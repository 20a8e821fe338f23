"""Checks of the family ports."""

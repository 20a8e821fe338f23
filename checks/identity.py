"""Checks of the family identity."""

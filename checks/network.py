"""Checks of the family network."""

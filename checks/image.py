"""Checks of the family image."""

"""Checks of the family gpu."""

"""Checks of the family topology."""

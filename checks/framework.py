"""Checks of the family framework."""

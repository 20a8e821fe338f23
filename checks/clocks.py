"""Checks of the family clocks."""

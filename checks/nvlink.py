"""Checks of the family nvlink."""

"""Checks of the family storage."""

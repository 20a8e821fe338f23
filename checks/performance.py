"""Checks of the family performance."""

"""Checks of the family gpudirect."""

"""Checks of the family memory."""

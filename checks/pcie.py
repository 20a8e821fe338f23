"""Checks of the family pcie."""

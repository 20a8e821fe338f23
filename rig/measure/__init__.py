"""Output of a probe or a tool -> figures. Pure parsers."""

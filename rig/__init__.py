"""The library: facts of a machine, a plan made from them, and the reasons. Prints nothing, exits nothing."""

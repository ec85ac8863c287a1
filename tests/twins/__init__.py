"""Twins of the doors to the outside: they behave like the real thing, and fail when told to."""

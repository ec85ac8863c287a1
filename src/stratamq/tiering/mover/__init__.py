"""Sealed segments on their way to the object store, and the removal of objects no longer needed."""

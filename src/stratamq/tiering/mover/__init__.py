"""Sealed segments on their way to the object store, and what goes there when nobody needs it."""

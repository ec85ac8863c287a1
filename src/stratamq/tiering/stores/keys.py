"""Which names objects may have: those that are safe as a path, in a URL and in a shell."""

from __future__ import annotations

import re

from stratamq.model.errors import InvalidName

KEY_BYTES_MAX = 900
"""S3 allows 1024, and a store's prefix comes before it."""
PART_BYTES_MAX = 200
"""A file system allows 255, and temporary names are a little longer."""

_PART = re.compile(r"[A-Za-z0-9_=+@,%~-][A-Za-z0-9._=+@,%~-]*")
_PREFIX = re.compile(r"[A-Za-z0-9._=+@,%~/-]*")


def checked(key: str) -> str:
    """The key itself, or InvalidName. No part begins with a dot: those names are the store's."""
    parts = key.split("/")
    if len(key) > KEY_BYTES_MAX or any(len(part) > PART_BYTES_MAX for part in parts):
        raise InvalidName(f"object key is too long: {key[:PART_BYTES_MAX]!r}...")
    if not all(_PART.fullmatch(part) for part in parts):
        raise InvalidName(f"object key {key!r} is not made of safe names with / between them")
    return key


def checked_prefix(prefix: str) -> str:
    """The beginning of a key, which may end in the middle of a name."""
    if len(prefix) > KEY_BYTES_MAX or not _PREFIX.fullmatch(prefix) or _climbs(prefix):
        raise InvalidName(f"no object key begins with {prefix[:PART_BYTES_MAX]!r}")
    return prefix


def _climbs(prefix: str) -> bool:
    """Whether it leaves the store, if read as a path."""
    return (
        prefix.startswith("/")
        or "//" in prefix
        or any(part.startswith(".") for part in prefix.split("/"))
    )

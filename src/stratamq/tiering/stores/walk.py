"""A folder tree listed as an object store lists: in the order of whole keys, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from stratamq.tiering.stores.contract import Listed, Page


class Entry(NamedTuple):
    name: str
    folder: bool
    size: int
    modified_ms: int


ListFolder = Callable[[str], Iterable[Entry]]
"""Lists a folder, which is given as a key without a slash at its end. Empty if it is missing."""


def page(list_folder: ListFolder, prefix: str, after: str, limit: int) -> Page:
    found = tuple(islice(walk(list_folder, prefix, after), limit + 1))
    return Page(found[:limit], len(found) > limit)


def walk(list_folder: ListFolder, prefix: str, after: str) -> Iterator[Listed]:
    """Yield every object whose key begins with `prefix` and sorts after `after`, in order. Folders
    that can hold none are not listed."""
    top = prefix.rpartition("/")[0]
    yield from _below(list_folder, top, prefix, after)


def _below(list_folder: ListFolder, folder: str, prefix: str, after: str) -> Iterator[Listed]:
    base = f"{folder}/" if folder else ""
    for entry in sorted(list_folder(folder), key=_order):
        key = base + entry.name
        if entry.name.startswith("."):
            continue  # the store's own
        if entry.folder:
            inside = f"{key}/"
            may_match = inside.startswith(prefix) or prefix.startswith(inside)
            if may_match and (after.startswith(inside) or inside > after):
                yield from _below(list_folder, key, prefix, after)
        elif key.startswith(prefix) and key > after:
            yield Listed(key, entry.size, entry.modified_ms)


def _order(entry: Entry) -> str:
    """A folder sorts as its keys do: `a-b` comes before `a/b`. Names are ASCII."""
    return f"{entry.name}/" if entry.folder else entry.name

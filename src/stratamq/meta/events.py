"""What a command changed. The same events move the state, fill the store's rows and feed the
caches, so the three cannot tell different stories."""

from __future__ import annotations

from typing import NamedTuple

from stratamq.meta.entities import Entity


class Put(NamedTuple):
    """The entity is new or replaced the one with its key."""

    entity: Entity


class Removed(NamedTuple):
    """The entity is gone; this is its last form."""

    entity: Entity


Event = Put | Removed


class Update(NamedTuple):
    """Events that take a state from revision `previous` to `revision`, as pushed to watchers.

    A watcher that is not at `previous` missed something and reads a snapshot instead.
    """

    previous: int
    revision: int
    events: tuple[Event, ...]

    @classmethod
    def gap(cls, revision: int) -> Update:
        """Tells a watcher at or before `revision` that it missed something."""
        return cls(revision + 1, revision + 1, ())

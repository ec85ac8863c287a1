"""Whether a node may be sent clients, and if not, what is missing."""

from __future__ import annotations

STORAGE = "storage"
STARTING, STOPPING = "starting", "stopping"


class Health:
    """A node is ready when every part that clients need has started, until it begins to stop."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts
        self.missing: dict[str, str] = dict.fromkeys(parts, STARTING)
        """The parts that do not serve, each with why; empty: the node is ready."""

    def started(self, part: str) -> None:
        self.missing.pop(part, None)

    def has_started(self, part: str) -> bool:
        """Whether it serves, or did until the node began to stop."""
        return self.missing.get(part) != STARTING

    def stopping(self) -> None:
        self.missing = dict.fromkeys(self._parts, STOPPING)

"""Whether a node may be sent clients, and if not, what is missing."""

from __future__ import annotations


class Health:
    """A node is ready when every part that clients need has started, until it begins to stop."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts
        self.missing: dict[str, str] = dict.fromkeys(parts, "starting")
        """The parts that do not serve, each with why; empty: the node is ready."""

    def started(self, part: str) -> None:
        self.missing.pop(part, None)

    def stopping(self) -> None:
        self.missing = dict.fromkeys(self._parts, "stopping")

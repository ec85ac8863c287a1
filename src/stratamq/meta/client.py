"""The Meta Service as the rest of a node sees it: in the same process now, over gRPC later."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from stratamq.meta.commands import Command
from stratamq.meta.state import MetaState, Offsets
from stratamq.meta.watch import Watch


class MetaClient(Protocol):
    async def submit(self, *commands: Command) -> int:
        """Apply all commands or none. On return they are durable; the revision they led to.

        A refusal is one of `stratamq.model.errors`. A caller that stops waiting does not undo them.
        """

    async def snapshot(self) -> MetaState:
        """Everything that can be watched, at one revision. Group offsets need not be in it."""

    async def revision(self) -> int: ...

    def watch(self) -> Watch:
        """Every update from now on. Watch first and read the snapshot then, and nothing is
        missed."""

    async def group_offsets(self, group: str) -> Offsets:
        """What the group committed; empty for a group nobody knows."""

    async def groups(self) -> Collection[str]: ...

"""BackUp, which Kafka does not have: the node makes a backup of itself on its own machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from stratamq.broker.kafka.contract import Caller, Family, Handled
from stratamq.broker.kafka.errors import api_error
from stratamq.model.errors import StrataError
from stratamq.wire.kafka.protocol.messages.backup import BackUpRequest, BackUpResponse

WAIT_MS_MAX = 30_000
"""A request waits no longer, whatever its client asks for."""


class FinishedBackup(NamedTuple):
    """What a backup holds, and what it does not."""

    taken_ms: int
    topics: int
    shards: int
    files: int
    size_bytes: int
    unavailable: Sequence[str]
    without_records: Sequence[str]
    store: str
    objects: int


class BackupProgress(NamedTuple):
    """How far a backup is: `finished` once it is there under its name."""

    path: str
    step: str
    done_bytes: int
    finished: FinishedBackup | None


class Backups(Protocol):
    """What this API needs of the node."""

    async def begin(self, name: str) -> None:
        """StrataError when it is refused: see docs/backup.md."""

    async def wait(self, name: str, timeout_ms: int) -> BackupProgress:
        """Wait for the backup that was begun last, if it has this name; NotFound otherwise. Raises
        what it failed with."""

    async def stop(self) -> None:
        """End one that is under way."""


class BackupApi(Family):
    def __init__(self, make_backups: Callable[[], Backups]) -> None:
        """`make_backups` is called once, with the first request."""
        self._make_backups = make_backups
        self._backups: Backups | None = None

    def handlers(self) -> Mapping[type, Handled]:
        return {BackUpRequest: Handled(self.back_up)}

    async def stop(self) -> None:
        if self._backups is not None:
            await self._backups.stop()

    async def back_up(self, request: BackUpRequest, caller: Caller) -> BackUpResponse:
        backups = self._backups = self._backups or self._make_backups()
        try:
            if request.begins:
                await backups.begin(request.name)
            timeout_ms = min(max(request.timeout_ms, 0), WAIT_MS_MAX)
            found = await backups.wait(request.name, timeout_ms)
        except StrataError as error:
            code, message = api_error(error)
            return BackUpResponse(error_code=code, error_message=message)
        done = {} if found.finished is None else found.finished._asdict()
        return BackUpResponse(
            is_done=found.finished is not None,
            path=found.path,
            step=found.step,
            done_bytes=found.done_bytes,
            **done,
        )

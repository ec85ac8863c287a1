"""A MetaClient that calls a Meta Service in another process.

| what fails                        | what the caller sees                                        |
|-----------------------------------|-------------------------------------------------------------|
| a command is refused              | the same error as in the service's own process              |
| no connection, no answer in time  | Unreachable; whether commands were applied is not known     |
| a watch breaks                    | it is made again, and its reader is sent to a snapshot      |
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc

from stratamq.meta.apply import Command
from stratamq.meta.client import Watch
from stratamq.meta.commands import encode_command
from stratamq.meta.evolve import restored
from stratamq.meta.rpc import meta_pb2 as pb
from stratamq.meta.rpc.server import SERVICE
from stratamq.meta.state import Event, MetaState, Put, Removed, Update
from stratamq.meta.store import entity_of
from stratamq.model import errors
from stratamq.model.errors import Closed, StrataError, Unreachable

log = logging.getLogger(__name__)

CALL_S = 10.0
PAUSE_S = 0.2
"""Before a broken watch is made again."""

OPTIONS = [
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
]


class MetaConnection:
    """Calls one Meta Service. Used from one event loop; `close` it at the end.

    A MetaClient but for groups: they are the business of their coordinators."""

    def __init__(self, address: str, *, watch_updates_max: int = 1024) -> None:
        self._address, self._updates_max = address, watch_updates_max
        self._channel = grpc.aio.insecure_channel(address, OPTIONS)
        self._watches: dict[Watch, asyncio.Task[None]] = {}
        self._closed = False

    async def submit(self, *commands: Command) -> int:
        request = pb.SubmitRequest(
            commands=[
                pb.Command(name=name, version=version, fields=fields)
                for name, version, fields in map(encode_command, commands)
            ]
        )
        reply = await self._ask("Submit", request, pb.SubmitReply)
        if reply.HasField("refusal"):
            raise refused(reply.refusal.kind, reply.refusal.text)
        return int(reply.revision)

    async def revision(self) -> int:
        reply = await self._ask("Revision", pb.RevisionRequest(), pb.RevisionReply)
        return int(reply.revision)

    async def snapshot(self) -> MetaState:
        entities, revision = [], 0
        try:
            async for part in self._stream("Snapshot", pb.SnapshotRequest(), pb.SnapshotPart):
                revision = part.revision
                entities += [entity_of(row.key, row.value) for row in part.rows]
        except grpc.aio.AioRpcError as error:
            raise self._unreachable(error) from None
        return restored(entities, revision)

    def watch(self) -> Watch:
        if self._closed:
            raise Closed("the connection to the Meta Service is closed")
        watch = Watch(self._updates_max, self._forget)
        self._watches[watch] = asyncio.create_task(self._follow(watch), name="meta-watch")
        return watch

    async def close(self) -> None:
        self._closed = True
        for watch in list(self._watches):
            watch.close()
        await self._channel.close()

    # -- watching --------------------------------------------------------------------------------

    async def _follow(self, watch: Watch) -> None:
        """Each connection begins with where its updates begin: what came before, a snapshot has."""
        while True:
            try:
                begins = True
                async for one in self._stream("Watch", pb.WatchRequest(), pb.WatchUpdate, None):
                    if begins:
                        watch.push(Update.gap(one.revision))
                        begins = False
                    else:
                        events = tuple(map(_event, one.events))
                        watch.push(Update(one.previous, one.revision, events))
            except grpc.aio.AioRpcError as error:
                log.info("the watch of the Meta Service: %s", self._unreachable(error))
            await asyncio.sleep(PAUSE_S)

    def _forget(self, watch: Watch) -> None:
        self._watches.pop(watch).cancel()

    # -- calls -----------------------------------------------------------------------------------

    async def _ask(self, name: str, request: Any, reply: Any) -> Any:
        if self._closed:
            raise Closed("the connection to the Meta Service is closed")
        method = self._channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )
        try:
            return await method(request, timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            raise self._unreachable(error) from None

    def _stream(self, name: str, request: Any, part: Any, timeout_s: float | None = CALL_S) -> Any:
        return self._channel.unary_stream(
            f"/{SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=part.FromString,
        )(request, timeout=timeout_s)

    def _unreachable(self, error: grpc.aio.AioRpcError) -> Unreachable:
        reason = f"{error.code().name}: {error.details()}"
        return Unreachable(f"the Meta Service at {self._address} did not answer ({reason})")


def refused(kind: str, text: str) -> StrataError:
    """The error that the service raised; one that this release does not know is a StrataError."""
    found = getattr(errors, kind, StrataError)
    known = isinstance(found, type) and issubclass(found, StrataError)
    error_class: type[StrataError] = found if known else StrataError
    error = error_class.__new__(error_class)  # some are made of more than a text
    Exception.__init__(error, text)
    return error


def _event(row: pb.Row) -> Event:
    entity = entity_of(row.key, row.value)
    return Removed(entity) if row.removed else Put(entity)

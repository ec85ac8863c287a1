"""Serves a MetaClient over gRPC: mostly the elected node's MetaService.

Snapshots leave part by part, so that a large state is never one message. A peer that reads slowly
holds up nobody else: its watch drops updates, and it reads a snapshot then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc

from stratamq.meta.client import MetaClient
from stratamq.meta.commands import EncodedCommand, decode_command
from stratamq.meta.evolve import Entity, entities_of
from stratamq.meta.rpc import meta_pb2 as pb
from stratamq.meta.state import Event, Put
from stratamq.meta.store import row_key, row_value
from stratamq.model.errors import CannotListen, Closed, StrataError

SERVICE = "stratamq.meta.v1.MetaService"
PART_ROWS = 500
"""Rows of one message: some hundred kilobytes."""


class MetaServer:
    """A port. Calls after `stop` are refused; those under way have its grace to end."""

    def __init__(self, meta: MetaClient) -> None:
        self._meta = meta
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        handlers = {
            "Submit": _handler(unary, self._submit, pb.SubmitRequest),
            "Revision": _handler(unary, self._revision, pb.RevisionRequest),
            "Snapshot": _handler(stream, self._snapshot, pb.SnapshotRequest),
            "Watch": _handler(stream, self._watch, pb.WatchRequest),
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )

    async def start(self, host: str, port: int) -> int:
        """The port that it listens on."""
        try:
            port = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError:
            raise CannotListen(f"cannot listen on {host}:{port} for the Meta Service") from None
        await self._server.start()
        return port

    async def stop(self, grace_s: float = 1.0) -> None:
        await self._server.stop(grace_s)

    # -- calls -----------------------------------------------------------------------------------

    async def _submit(self, request: pb.SubmitRequest, context: Any) -> pb.SubmitReply:
        try:
            commands = [
                decode_command(EncodedCommand(one.name, one.version, one.fields))
                for one in request.commands
            ]
            return pb.SubmitReply(revision=await self._meta.submit(*commands))
        except StrataError as error:
            return pb.SubmitReply(refusal=pb.Refusal(kind=type(error).__name__, text=str(error)))

    async def _revision(self, request: pb.RevisionRequest, context: Any) -> pb.RevisionReply:
        return pb.RevisionReply(revision=await self._meta.revision())

    async def _snapshot(
        self, request: pb.SnapshotRequest, context: Any
    ) -> AsyncIterator[pb.SnapshotPart]:
        state = await self._meta.snapshot()
        rows: list[pb.Row] = []
        for entity in entities_of(state):
            rows.append(_row(entity))
            if len(rows) == PART_ROWS:
                yield pb.SnapshotPart(revision=state.revision, rows=rows)
                rows = []
        yield pb.SnapshotPart(revision=state.revision, rows=rows)

    async def _watch(self, request: pb.WatchRequest, context: Any) -> AsyncIterator[pb.WatchUpdate]:
        watch = self._meta.watch()
        try:
            now = await self._meta.revision()
            yield pb.WatchUpdate(previous=now, revision=now)
            while True:
                update = await watch.next()
                yield pb.WatchUpdate(
                    previous=update.previous,
                    revision=update.revision,
                    events=[_event(one) for one in update.events],
                )
        except Closed:
            return
        finally:
            watch.close()


def _handler(kind: Any, call: Any, request: Any) -> Any:
    return kind(
        call,
        request_deserializer=request.FromString,
        response_serializer=lambda reply: reply.SerializeToString(),
    )


def _row(entity: Entity) -> pb.Row:
    return pb.Row(key=row_key(entity), value=row_value(entity))


def _event(event: Event) -> pb.Row:
    row = _row(event.entity)
    row.removed = not isinstance(event, Put)
    return row

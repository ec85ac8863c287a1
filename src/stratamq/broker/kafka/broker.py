"""All families of Kafka's APIs behind one door."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from stratamq.broker.kafka import api_versions
from stratamq.broker.kafka.contract import Beginner, Caller, Family, Handled, Handler
from stratamq.wire.kafka.protocol import APIS, Served, Versions
from stratamq.wire.kafka.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from stratamq.wire.kafka.protocol.schema import message_of


class HandlerGuard(Protocol):
    """Stands before every handler: given a request's class and its handler, the one to call."""

    def __call__(self, request: type, handler: Handler) -> Handler: ...

    def beginner(self, request: type, beginner: Beginner) -> Beginner | None: ...


class KafkaBroker:
    """Knows which class answers which request. Families start in order and stop in reverse.

    `also_served` are APIs that somebody else answers, such as the connection itself: they are
    advertised with the rest. No handler is reached but through the `guard`, where there is one.
    """

    def __init__(
        self,
        families: Sequence[Family],
        also_served: Served | None = None,
        guard: HandlerGuard | None = None,
    ) -> None:
        self._families = families
        self._handlers: dict[type, Handler] = {ApiVersionsRequest: self._api_versions}
        self.beginners: dict[type, Beginner] = {}
        """Of APIs that are called very often: how a request begins without a task."""
        served = {_key(ApiVersionsRequest): APIS[_key(ApiVersionsRequest)].versions}
        for request, handled in _all_handlers(families):
            assert request not in self._handlers, f"two families answer {request.__name__}"
            handler, begin = handled.handler, handled.beginner
            self._handlers[request] = handler if guard is None else guard(request, handler)
            if begin is not None and guard is not None:
                begin = guard.beginner(request, begin)
            if begin is not None:
                self.beginners[request] = begin
            served[_key(request)] = _versions(request, handled)
        self.served: Mapping[int, Versions] = {**served, **(also_served or {})}
        self._started = contextlib.AsyncExitStack()

    def handler(self, request_type: type) -> Handler | None:
        return self._handlers.get(request_type)

    async def start(self) -> None:
        async with contextlib.AsyncExitStack() as started:
            for family in self._families:
                await family.start()
                started.push_async_callback(family.stop)
            self._started = started.pop_all()

    async def stop(self) -> None:
        await self._started.aclose()

    async def _api_versions(
        self, request: ApiVersionsRequest, caller: Caller
    ) -> ApiVersionsResponse:
        return api_versions.answer(request, caller, self.served)


def _all_handlers(families: Sequence[Family]) -> Iterator[tuple[type, Handled]]:
    for family in families:
        yield from family.handlers().items()


def _key(request: type) -> int:
    return message_of(request).key


def _versions(request: type, handled: Handled) -> Versions:
    known = APIS[_key(request)].versions
    if handled.versions is None:
        return known
    assert known.covers(handled.versions), f"{request.__name__} is known in {known} only"
    return handled.versions

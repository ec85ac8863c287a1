"""All families of Kafka's APIs as one broker."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from stratamq.broker.kafka import api_versions
from stratamq.broker.kafka.contract import Beginner, Caller, Family, Handler
from stratamq.broker.kafka.security.guard import Guard
from stratamq.wire.kafka.protocol import APIS, Served, Versions
from stratamq.wire.kafka.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from stratamq.wire.kafka.protocol.schema import message_of


class KafkaBroker:
    """Knows which class answers which request. Families start in order and stop in reverse.

    `also_served` are APIs that are answered elsewhere, such as by the connection itself: they are
    advertised with the rest. Every handler is called through the `guard`, where there is one.
    """

    def __init__(
        self,
        families: Sequence[Family],
        also_served: Served | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._families = families
        self._handlers: dict[type, Handler] = {ApiVersionsRequest: self._api_versions}
        self.beginners: dict[type, Beginner] = {}
        """Of APIs that are called very often: how a request begins without a task."""
        served = {_key(ApiVersionsRequest): APIS[_key(ApiVersionsRequest)].versions}
        for request, handled in (one for family in families for one in family.handlers().items()):
            assert request not in self._handlers, f"two families answer {request.__name__}"
            handler, begin = handled.handler, handled.beginner
            self._handlers[request] = handler if guard is None else guard(request, handler)
            if begin is not None and guard is not None:
                begin = guard.beginner(request, begin)
            if begin is not None:
                self.beginners[request] = begin
            known = APIS[_key(request)].versions
            served[_key(request)] = versions = handled.versions or known
            assert known.covers(versions), f"{request.__name__} is known in {known} only"
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


def _key(request: type) -> int:
    return message_of(request).key

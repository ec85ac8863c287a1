"""All families of Kafka's APIs behind one door."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from stratamq.broker.kafka import api_versions
from stratamq.broker.kafka.contract import Beginner, Caller, Family, Handled, Handler
from stratamq.wire.kafka.protocol import APIS, Served, Versions
from stratamq.wire.kafka.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from stratamq.wire.kafka.protocol.schema import message_of

Guard = Callable[[type, Handler], Handler]
"""What stands before every handler: given a request's class and its handler, the one to call."""


class KafkaBroker:
    """Knows which class answers which request. Families start in order and stop in reverse.

    `also_served` are APIs that somebody else answers, such as the connection itself: they are
    advertised with the rest. No handler is reached but through the `guard`, where there is one.
    """

    def __init__(
        self,
        families: Sequence[Family],
        also_served: Served | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._families = families
        self._handlers: dict[type, Handler] = {ApiVersionsRequest: self._api_versions}
        self._beginners: dict[type, Beginner] = {}
        served = {_key(ApiVersionsRequest): APIS[_key(ApiVersionsRequest)].versions}
        for request, handled in _all_handlers(families):
            assert request not in self._handlers, f"two families answer {request.__name__}"
            handler = handled.handler
            self._handlers[request] = guarded = (
                handler if guard is None else guard(request, handler)
            )
            if handled.beginner is not None and guarded is handler:
                self._beginners[request] = handled.beginner
            served[_key(request)] = _versions(request, handled)
        self.served: Mapping[int, Versions] = {**served, **(also_served or {})}
        self._started = contextlib.AsyncExitStack()

    def handler(self, request_type: type) -> Handler | None:
        return self._handlers.get(request_type)

    def beginner(self, request_type: type) -> Beginner | None:
        """Only where the guard leaves the handler as it is: what begins is not judged again."""
        return self._beginners.get(request_type)

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

"""One connection to a node: requests out, answers back to their callers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from stratamq.client.failures import check
from stratamq.client.options import ClientOptions, Server
from stratamq.client.sasl import exchange
from stratamq.model.errors import Closed, Denied, TimedOut, Unreachable, UnsupportedFormat
from stratamq.model.version import own_version
from stratamq.net.connection import Connection
from stratamq.net.dial import dial
from stratamq.net.tls import TlsContext
from stratamq.wire.kafka.protocol import (
    APIS,
    Frame,
    FrameReceiver,
    ProtocolError,
    ReceiveBuffers,
    Response,
    Versions,
    decode_response,
    encode_request,
)
from stratamq.wire.kafka.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from stratamq.wire.kafka.protocol.messages.fetch import FetchRequest
from stratamq.wire.kafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from stratamq.wire.kafka.protocol.schema import message_of

CAPS: Mapping[int, int] = {
    0: 11,  # Produce: from 12 on it may add partitions to a transaction by itself
    1: 12,  # Fetch: from 13 on by topic id
    8: 9,  # OffsetCommit: from 10 on by topic id
    9: 7,  # OffsetFetch: from 8 on many groups
    10: 3,  # FindCoordinator: from 4 on many keys
    22: 4,  # InitProducerId: from 5 on with the newer transactions
    24: 3,  # AddPartitionsToTxn: from 4 on for brokers
    26: 4,  # EndTxn: from 5 on it changes the producer's epoch
    28: 4,  # TxnOffsetCommit: from 5 on it adds the group by itself
}

FETCH_BY_ID_CAP = 17
"""Fetch, where the caller names the id. A node that knows no ids is asked by name all the same."""

Offered = Mapping[int, Versions]


def offered_by(response: ApiVersionsResponse) -> Offered:
    return {one.api_key: Versions(one.min_version, one.max_version) for one in response.api_keys}


def version_for(key: int, offered: Offered, cap: int | None = None) -> int:
    """UnsupportedFormat when there is none in common. `cap` replaces ours."""
    api, theirs = APIS[key], offered.get(key)
    if theirs is not None:
        ours = CAPS.get(key, api.versions.last) if cap is None else cap
        last = min(api.versions.last, theirs.last, ours)
        if last >= max(api.versions.first, theirs.first):
            return last
    raise UnsupportedFormat(f"the node does not serve {api.name} in a version that we speak")


T = TypeVar("T")
API_VERSIONS_VERSION = 3
FETCH_KEY = message_of(FetchRequest).key


class _Asked(NamedTuple):
    key: int
    version: int
    answer: asyncio.Future[object]


class NodeConnection:
    """A `net` Receiver. Many requests may be under way; a broken connection fails all of them.

    Large answers come straight into buffers that are used again: what is fetched is not copied.
    """

    def __init__(self, connection: Connection, server: Server, client_id: str) -> None:
        self.server = server
        self._connection, self._client_id = connection, client_id
        self._frames = FrameReceiver(ReceiveBuffers())
        self._asked: dict[int, _Asked] = {}
        self._next_id = 0
        self._offered: Offered = {}
        self._ended: str | None = None

    @property
    def is_open(self) -> bool:
        return self._ended is None and not self._connection.is_closing

    async def ask(
        self, request: object, answer: type[T], timeout_s: float, version_cap: int | None = None
    ) -> T:
        """The answer to one request. Unreachable or TimedOut when there is none."""
        key = message_of(type(request)).key
        version = version_for(key, self._offered, version_cap)
        return await self._ask(request, answer, version, timeout_s)

    async def greet(self, timeout_s: float) -> None:
        """Learn what the node speaks. Nothing else can be asked before."""
        greeting = ApiVersionsRequest(
            client_software_name="stratamq", client_software_version=own_version()
        )
        reply = await self._ask(greeting, ApiVersionsResponse, API_VERSIONS_VERSION, timeout_s)
        self._offered = offered_by(reply)

    def close(self) -> None:
        self._connection.abort()

    async def _ask(self, request: object, answer: type[T], version: int, timeout_s: float) -> T:
        if self._ended is not None:
            raise Unreachable(self._ended)
        key = message_of(type(request)).key
        self._next_id += 1
        number = self._next_id
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._asked[number] = _Asked(key, version, future)
        self._connection.write(encode_request(request, version, number, self._client_id))
        try:
            async with asyncio.timeout(timeout_s):
                body = await future
        except TimeoutError:
            # Its answer would still come, in its turn: nothing else may wait for a node that
            # is silent.
            self.close()
            raise TimedOut(
                f"{self.server}: no answer to {APIS[key].name} in {timeout_s:g} s"
            ) from None
        finally:
            self._asked.pop(number, None)
        assert isinstance(body, answer), "the protocol's tables pair requests and responses"
        return body

    # -- Receiver ------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        self._frames.feed(data)
        self._take_answers()

    def buffer(self) -> memoryview | None:
        return self._frames.buffer()

    def filled(self, count: int) -> None:
        self._frames.filled(count)
        self._take_answers()

    def _take_answers(self) -> None:
        try:
            while (frame := self._frames.next_frame()) is not None:
                self._answered(frame)
        except ProtocolError as error:
            self._end(f"{self.server}: what it answers cannot be read ({error})")
            self.close()

    def _answered(self, frame: Frame) -> None:
        asked = self._asked.get(int.from_bytes(frame[:4], "big", signed=True))
        if asked is None or asked.answer.done():
            return
        whole = frame if asked.key == FETCH_KEY else bytes(frame)
        response: Response = decode_response(whole, asked.key, asked.version)
        asked.answer.set_result(response.body)

    def sent(self) -> None:
        pass

    def is_busy(self) -> bool:
        return bool(self._asked)

    def finish(self) -> None:
        self._connection.close()

    def ended(self) -> None:
        self._frames.close()
        self._end(f"{self.server} closed the connection")

    def _end(self, reason: str) -> None:
        if self._ended is None:
            self._ended = reason
        for asked in list(self._asked.values()):
            if not asked.answer.done():
                asked.answer.set_exception(Unreachable(reason))


async def connect(server: Server, options: ClientOptions, tls: TlsContext | None) -> NodeConnection:
    """Connected, greeted and logged in."""
    timeout_s = options.connect_ms_max / 1000
    made: list[NodeConnection] = []

    def session(connection: Connection) -> NodeConnection:
        made.append(NodeConnection(connection, server, options.client_id))
        return made[0]

    await dial(server.host, server.port, session, tls=tls, timeout_s=timeout_s)
    if not made:
        raise Closed(f"{server} closed the connection")
    node = made[0]
    try:
        await node.greet(timeout_s)
        if options.login is not None:
            await _log_in(node, options, timeout_s)
    except BaseException:
        node.close()
        raise
    return node


async def _log_in(node: NodeConnection, options: ClientOptions, timeout_s: float) -> None:
    login = options.login
    assert login is not None, "the caller looked"
    handshake = SaslHandshakeRequest(mechanism=login.mechanism)
    shaken = await node.ask(handshake, SaslHandshakeResponse, timeout_s)
    if shaken.error_code:
        offered = ", ".join(shaken.mechanisms)
        raise Denied(f"{node.server} does not offer {login.mechanism} but {offered}")
    steps = exchange(login)
    token = next(steps)
    while True:
        request = SaslAuthenticateRequest(auth_bytes=token)
        reply = await node.ask(request, SaslAuthenticateResponse, timeout_s)
        check(reply.error_code, f"{node.server}: {login.user!r} cannot log in", reply.error_message)
        try:
            token = steps.send(bytes(reply.auth_bytes))
        except StopIteration:
            return

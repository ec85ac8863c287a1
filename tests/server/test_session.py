"""One connection: order, limits, refusals, muting, authentication, a graceful end."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.produce.answers import Unanswered
from stratamq.broker.kafka.quotas.manager import RequestCost
from stratamq.net.listener import ConnectionLimits
from stratamq.server.kafka.server import ServerLimits
from stratamq.wire.kafka.protocol import Served, Versions
from stratamq.wire.kafka.protocol.messages.api_versions import ApiVersionsRequest
from stratamq.wire.kafka.protocol.messages.fetch import FetchRequest, FetchResponse
from stratamq.wire.kafka.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from stratamq.wire.kafka.protocol.messages.produce import ProduceRequest, ProduceResponse
from stratamq.wire.kafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.server.conftest import VERSION, connected, echo, serving
from tests.server.conftest import numbered as appended
from tests.waiting import let_pass, let_run, until

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
GOOD = HeartbeatResponse(error_code=0)


async def beat(request: Any, caller: Caller) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=request.generation_id)


def numbered(number: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=number, member_id="m")


async def test_answers_leave_in_the_order_of_requests() -> None:
    """The first is done last, and that all of them are waiting then shows that they run side by
    side."""
    taken: list[int] = []
    gates = [asyncio.Event() for _ in range(10)]

    async def held(request: Any, caller: Caller) -> ProduceResponse:
        taken.append(request.timeout_ms)
        await gates[request.timeout_ms].wait()
        return echo(request)

    async with serving({ProduceRequest: held}) as (_, port), connected(port) as peer:
        for number in range(10):
            peer.send(appended(number), VERSION)
        await until(lambda: len(taken) == 10)
        for gate in reversed(gates):
            gate.set()
            await asyncio.sleep(0)
        assert [await peer.echoed() for _ in range(10)] == list(range(10))
    assert taken == list(range(10))


async def test_no_more_requests_are_taken_than_allowed() -> None:
    under_way = most = 0
    gate = asyncio.Event()

    async def wait(request: Any, caller: Caller) -> ProduceResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await gate.wait()
        under_way -= 1
        return echo(request)

    limits = ServerLimits(requests_max=3)
    async with serving({ProduceRequest: wait}, limits) as (_, port), connected(port) as peer:
        for number in range(50):
            peer.send(appended(number), VERSION)
        await until(lambda: under_way == 3)
        await let_run()  # time for a fourth
        assert under_way == 3
        gate.set()
        assert [await peer.echoed() for _ in range(50)] == list(range(50))
    assert most == 3


async def test_a_request_begins_when_those_before_it_are_answered() -> None:
    """Changes one after the other, and a waiting Fetch holds up none of them."""
    begun: list[str] = []
    gates = {name: asyncio.Event() for name in ("fetch", "0", "1")}

    async def change(request: Any, caller: Caller) -> HeartbeatResponse:
        begun.append(str(request.generation_id))
        await gates[begun[-1]].wait()
        return GOOD

    async def wait(request: Any, caller: Caller) -> FetchResponse:
        begun.append("fetch")
        await gates["fetch"].wait()
        return FetchResponse(responses=[])

    handlers = {HeartbeatRequest: change, FetchRequest: wait}
    async with serving(handlers) as (_, port), connected(port) as peer:
        peer.send(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 11)
        peer.send(numbered(0), 4)
        peer.send(numbered(1), 4)
        await until(lambda: len(begun) == 2)
        await let_run()  # time for the third
        assert begun == ["fetch", "0"]
        gates["0"].set()
        await until(lambda: len(begun) == 3)  # though no answer can leave before the Fetch's
        gates["1"].set()
        gates["fetch"].set()
        await peer.answer(FetchRequest, 11)
        await peer.answer(HeartbeatRequest, 4)
        await peer.answer(HeartbeatRequest, 4)


async def test_what_waits_to_begin_is_dropped_with_its_connection() -> None:
    begun: list[int] = []
    gate = asyncio.Event()

    async def change(request: Any, caller: Caller) -> HeartbeatResponse:
        begun.append(request.generation_id)
        await gate.wait()
        return GOOD

    async with serving({HeartbeatRequest: change}) as (server, port):
        async with connected(port) as peer:
            peer.send(numbered(0), 4)
            peer.send(numbered(1), 4)
            await until(lambda: begun == [0])
            stopping = asyncio.create_task(server.stop(0.1))
            assert await peer.is_closed()
        await stopping
        gate.set()
    assert begun == [0]


async def test_no_answer_where_there_is_none() -> None:
    async def silent(request: Any, caller: Caller) -> HeartbeatResponse | None:
        return None if request.generation_id else GOOD

    async with serving({HeartbeatRequest: silent}) as (_, port), connected(port) as peer:
        peer.send(numbered(1), 4, 1)
        peer.send(numbered(0), 4, 2)
        assert (await peer.answer(HeartbeatRequest, 4))[0] == 2


@pytest.mark.parametrize("error", [Unanswered("lost"), RuntimeError("a bug")])
async def test_a_failure_closes_its_own_connection_only(error: Exception) -> None:
    async def fail(request: Any, caller: Caller) -> HeartbeatResponse:
        if request.generation_id:
            raise error
        return GOOD

    async with (
        serving({HeartbeatRequest: fail}) as (_, port),
        connected(port) as bad,
        connected(port) as good,
    ):
        bad.send(numbered(1), 4)
        assert await bad.is_closed()
        good.send(numbered(0), 4)
        assert (await good.answer(HeartbeatRequest, 4))[1] == GOOD


async def test_what_is_not_served_closes_the_connection() -> None:
    async with serving({}) as (_, port), connected(port) as peer:
        peer.send(BEAT, 4)
        assert await peer.is_closed()


async def test_a_frame_over_the_limit_closes_the_connection() -> None:
    limits = ServerLimits(frame_bytes_max=100)
    async with serving({HeartbeatRequest: beat}, limits) as (_, port), connected(port) as peer:
        peer.send(BEAT, 4)
        await peer.answer(HeartbeatRequest, 4)
        peer.writer.write((101).to_bytes(4, "big"))
        assert await peer.is_closed()


async def test_the_caller_is_described() -> None:
    seen: list[Caller] = []

    async def note(request: Any, caller: Caller) -> HeartbeatResponse:
        seen.append(caller)
        return GOOD

    async with serving({HeartbeatRequest: note}) as (_, port), connected(port) as peer:
        peer.send(BEAT, 3)
        await peer.answer(HeartbeatRequest, 3)
    (caller,) = seen
    told = (caller.version, caller.client_id, caller.host, caller.principal)
    assert told == (3, "peer", "127.0.0.1", "User:ANONYMOUS")


# -- quotas ----------------------------------------------------------------------------------------


class Strict:
    """Everybody who uses anything has to be quiet for a while."""

    idle = False
    times = True

    def __init__(self, quiet_ms: int) -> None:
        self.quiet_ms = quiet_ms
        self.used: list[RequestCost] = []

    def charge(self, caller: Caller, cost: RequestCost) -> int:
        self.used.append(cost)
        return self.quiet_ms


async def test_a_throttled_client_is_told_and_then_not_heard() -> None:
    quotas = Strict(60_000)
    async with (
        serving({HeartbeatRequest: beat}, quotas=quotas) as (_, port),
        connected(port) as peer,
        connected(port) as other,
    ):
        peer.send(numbered(0), 4)
        _, first = await peer.answer(HeartbeatRequest, 4)  # which is not held back itself
        assert first.throttle_time_ms == 60_000
        peer.send(numbered(0), 4)
        other.send(numbered(0), 4)
        await other.answer(HeartbeatRequest, 4)  # others are not muted
        waiting = asyncio.create_task(peer.answer(HeartbeatRequest, 4))
        let_pass(59)
        await let_run()
        assert not waiting.done()
        assert len(quotas.used) == 2
        let_pass(2)
        await waiting
    assert quotas.used[0].api_key == 12
    assert quotas.used[0].request_bytes > 20


# -- authentication --------------------------------------------------------------------------------


class Password:
    """One mechanism, one password."""

    served: ClassVar[Served] = {17: Versions(1, 1), 36: Versions(0, 2)}

    def authenticator(self, host: str, certified: str | None) -> Password:
        return Password()

    def __init__(self) -> None:
        self.principal: str | None = None
        self.failed = False

    async def answer(self, request: object, caller: Caller) -> object:
        await let_run(0.01)
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        assert isinstance(request, SaslAuthenticateRequest)
        if request.auth_bytes == b"secret":
            self.principal = "User:alice"
            return SaslAuthenticateResponse(auth_bytes=b"")
        self.failed = True
        return SaslAuthenticateResponse(error_code=58, error_message="no", auth_bytes=b"")


async def whoami(request: Any, caller: Caller) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=1 if caller.principal == "User:alice" else 0)


async def test_before_authentication_nothing_else_is_answered() -> None:
    async with (
        serving({HeartbeatRequest: whoami}, security=Password()) as (_, port),
        connected(port) as peer,
    ):
        peer.send(BEAT, 4)
        assert await peer.is_closed()


async def test_after_authentication_the_caller_has_a_name() -> None:
    async with (
        serving({HeartbeatRequest: whoami}, security=Password()) as (_, port),
        connected(port) as peer,
    ):
        software = {"client_software_name": "a", "client_software_version": "1"}
        peer.send(ApiVersionsRequest(**software), 3)
        peer.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        peer.send(SaslAuthenticateRequest(auth_bytes=b"secret"), 2)
        peer.send(BEAT, 4)  # pipelined: it has to wait for the one before
        _, versions = await peer.answer(ApiVersionsRequest, 3)
        assert {17, 36} <= {one.api_key for one in versions.api_keys}
        await peer.answer(SaslHandshakeRequest, 1)
        await peer.answer(SaslAuthenticateRequest, 2)
        assert (await peer.answer(HeartbeatRequest, 4))[1].error_code == 1


async def test_a_wrong_password_is_answered_and_then_closed() -> None:
    async with (
        serving({HeartbeatRequest: whoami}, security=Password()) as (_, port),
        connected(port) as peer,
    ):
        peer.send(SaslAuthenticateRequest(auth_bytes=b"guess"), 2)
        peer.send(BEAT, 4)
        assert (await peer.answer(SaslAuthenticateRequest, 2))[1].error_code == 58
        assert await peer.is_closed()


# -- the end ---------------------------------------------------------------------------------------


async def test_a_stop_answers_what_is_under_way() -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def slow(request: Any, caller: Caller) -> HeartbeatResponse:
        begun.set()
        await gate.wait()
        return GOOD

    async with serving({HeartbeatRequest: slow}) as (server, port), connected(port) as peer:
        peer.send(BEAT, 4)
        await begun.wait()
        stop = asyncio.create_task(server.stop(60))
        await let_run()
        assert not stop.done()
        gate.set()
        assert (await peer.answer(HeartbeatRequest, 4))[1] == GOOD
        assert await peer.is_closed()
        await asyncio.wait_for(stop, 20)
        with pytest.raises(OSError, match=r"refused|Connect"):
            await asyncio.open_connection("127.0.0.1", port)


async def test_a_stop_does_not_wait_for_ever() -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def slow(request: Any, caller: Caller) -> HeartbeatResponse:
        begun.set()
        await gate.wait()
        return GOOD

    async with serving({HeartbeatRequest: slow}) as (server, port), connected(port) as peer:
        peer.send(BEAT, 4)
        await begun.wait()
        await asyncio.wait_for(server.stop(0.1), 20)
        assert await peer.is_closed()
        assert server.request_budget.used_bytes > 0, "a request under way still has its bytes"
        gate.set()


async def test_idle_connections_are_closed_and_waiting_ones_are_not() -> None:
    async def slow(request: Any, caller: Caller) -> HeartbeatResponse:
        await let_run(0.5)
        return GOOD

    limits = ServerLimits(connections=ConnectionLimits(idle_ms_max=200))
    async with serving({HeartbeatRequest: slow}, limits) as (server, port):
        async with connected(port) as idle, connected(port) as busy:
            busy.send(BEAT, 4)
            assert await idle.is_closed()
            assert (await busy.answer(HeartbeatRequest, 4))[1] == GOOD
            assert await busy.is_closed()
        assert server.connection_count == 0

"""Which meta node is the elected one: that which made the election key, while its lease lives.

    state      what happens                                      next
    candidate  nobody holds the key: it is made, with a lease    elected
    candidate  another holds it: wait until it is gone           candidate
    elected    the lease is kept alive, three times in its time  elected
    elected    it was not kept alive for its whole time          lost
    elected    `resign`: the lease is given back                 over

A node that is lost finds out by its own clock, before etcd lets another be elected or after: what
protects the state is the `Fence`, not this.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import grpc

from stratamq.meta.etcd import etcd_pb2 as pb
from stratamq.meta.etcd.api import CALL_S, OPTIONS, EtcdUnavailable, TlsOfEtcd, target_of
from stratamq.meta.etcd.store import Fence

log = logging.getLogger(__name__)

ELECTION_KEY = b"!elected"
PAUSE_S = 0.5
"""Before the next try when etcd does not answer."""


class _Holder(NamedTuple):
    """Who holds the election key, and as of which revision of etcd nothing else was known."""

    address: str | None
    revision: int


class Election:
    """One node's part in it. Used from one event loop; `close` it at the end.

    `address` is where others reach this node's Meta Service. After `campaign`, `lost` is set when
    this node must stop acting as the elected one.
    """

    def __init__(
        self,
        url: str,
        prefix: bytes,
        address: str,
        *,
        lease_s: int = 10,
        tls: TlsOfEtcd | None = None,
    ) -> None:
        self._key, self._address, self._lease_s = prefix + ELECTION_KEY, address, lease_s
        target = target_of(url)
        if tls is None:
            self._channel = grpc.aio.insecure_channel(target, OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(target, tls.credentials(), OPTIONS)
        self.lost = asyncio.Event()
        self._lease: int | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def campaign(self) -> Fence:
        """Returns when this node is elected. Once in a life of this object."""
        while True:
            try:
                if (fence := await self._try()) is not None:
                    return fence
                await self._wait_while_held()
            except EtcdUnavailable as error:
                log.warning("election of the meta node: %s", error)
                await asyncio.sleep(PAUSE_S)

    async def leader(self) -> str | None:
        """Where the elected node is; None while there is none."""
        return (await self._holder()).address

    async def resign(self) -> None:
        """Let another be elected at once, and not only when the lease has run out."""
        await self._end_keeping()
        lease, self._lease = self._lease, None
        if lease is not None:
            with contextlib.suppress(EtcdUnavailable):
                await self._call(
                    "/etcdserverpb.Lease/LeaseRevoke",
                    pb.LeaseRevokeRequest(ID=lease),
                    pb.LeaseRevokeResponse,
                )

    async def close(self) -> None:
        await self.resign()
        await self._channel.close()

    # -- candidate -------------------------------------------------------------------------------

    async def _try(self) -> Fence | None:
        if self._lease is None:
            began = asyncio.get_running_loop().time()
            granted = await self._call(
                "/etcdserverpb.Lease/LeaseGrant",
                pb.LeaseGrantRequest(TTL=self._lease_s),
                pb.LeaseGrantResponse,
            )
            self._lease = granted.ID
            self._keeping = asyncio.create_task(self._keep(granted.ID, began))
        free = pb.Compare(target=pb.Compare.CREATE, key=self._key, create_revision=0)
        put = pb.PutRequest(key=self._key, value=self._address.encode(), lease=self._lease)
        held = pb.RequestOp(request_range=pb.RangeRequest(key=self._key))
        answer = await self._call(
            "/etcdserverpb.KV/Txn",
            pb.TxnRequest(
                compare=[free], success=[pb.RequestOp(request_put=put), held], failure=[held]
            ),
            pb.TxnResponse,
        )
        row = answer.responses[-1].response_range.kvs[0]
        # It may be ours although another try of ours made it: the answer to that was lost.
        if answer.succeeded or (row.lease == self._lease and not self.lost.is_set()):
            return Fence(ELECTION_KEY, row.create_revision)
        return None

    async def _wait_while_held(self) -> None:
        holder = await self._holder()
        if holder.address is None:
            return
        async for answer in self._watch(holder.revision + 1):
            if answer.canceled or any(one.type == pb.Event.DELETE for one in answer.events):
                return

    async def _holder(self) -> _Holder:
        answer = await self._call(
            "/etcdserverpb.KV/Range", pb.RangeRequest(key=self._key), pb.RangeResponse
        )
        address = answer.kvs[0].value.decode() if answer.kvs else None
        return _Holder(address, answer.header.revision)

    async def _watch(self, revision: int) -> AsyncIterator[Any]:
        create = pb.WatchCreateRequest(key=self._key, start_revision=revision)
        watch = self._channel.stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=pb.WatchRequest.SerializeToString,
            response_deserializer=pb.WatchResponse.FromString,
        )()
        try:
            await watch.write(pb.WatchRequest(create_request=create))
            async for answer in watch:
                yield answer
        except grpc.aio.AioRpcError as error:
            raise EtcdUnavailable(f"etcd: {error.code().name}: {error.details()}") from None
        finally:
            watch.cancel()

    # -- the lease -------------------------------------------------------------------------------

    async def _keep(self, lease: int, alive_at: float) -> None:
        """`lost` is set when the lease may have run out, counted from when etcd was asked last and
        answered."""
        loop = asyncio.get_running_loop()
        while True:
            left_s = alive_at + self._lease_s - loop.time()
            if left_s <= 0:
                break
            await asyncio.sleep(min(self._lease_s / 3, left_s))
            asked_at = loop.time()
            try:
                if not await self._keep_once(lease, max(left_s, 0.1)):
                    break
                alive_at = asked_at
            except EtcdUnavailable as error:
                log.warning("the lease of the elected meta node: %s", error)
                await asyncio.sleep(min(PAUSE_S, max(alive_at + self._lease_s - loop.time(), 0)))
        self.lost.set()

    async def _keep_once(self, lease: int, timeout_s: float) -> bool:
        call = self._channel.stream_stream(
            "/etcdserverpb.Lease/LeaseKeepAlive",
            request_serializer=pb.LeaseKeepAliveRequest.SerializeToString,
            response_deserializer=pb.LeaseKeepAliveResponse.FromString,
        )(timeout=min(timeout_s, CALL_S))
        try:
            await call.write(pb.LeaseKeepAliveRequest(ID=lease))
            answer = await call.read()
            return answer is not grpc.aio.EOF and answer.TTL > 0
        except grpc.aio.AioRpcError as error:
            raise EtcdUnavailable(f"etcd: {error.code().name}: {error.details()}") from None
        finally:
            call.cancel()

    async def _end_keeping(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
            self._keeping = None

    async def _call(self, path: str, request: Any, response: Any) -> Any:
        method = self._channel.unary_unary(
            path,
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        try:
            return await method(request, timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            raise EtcdUnavailable(f"etcd: {error.code().name}: {error.details()}") from None

"""etcd's calls, by plain functions over one channel. For threads that may wait; `election` has the
few that an event loop makes.

A call that raises may have been carried out all the same: etcd's leader can die between commit and
answer. Callers read again before they try again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import grpc

from stratamq.meta.etcd import etcd_pb2 as pb
from stratamq.model.errors import InvalidConfig, StorageError, Unreachable
from stratamq.net.dial import address_of

CALL_S = 3.0
"""For one call. etcd elects a new leader within two seconds."""

SCHEME = "etcd://"
PORT = 2379

OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
]


class EtcdUnavailable(StorageError):
    """etcd did not answer, or refused. Whether what was asked for was done is not known."""


class TlsOfEtcd(NamedTuple):
    """Contents of PEM files. Without certificate and key, only etcd proves who it is."""

    authorities: bytes
    certificate: bytes | None = None
    key: bytes | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.authorities, self.key, self.certificate)


def endpoints_of(url: str) -> tuple[tuple[str, int], ...]:
    """`etcd://HOST:PORT,HOST:PORT`; a port that is not said is 2379."""
    if not url.startswith(SCHEME):
        raise InvalidConfig(f"meta.url: {url!r} does not begin with {SCHEME}")
    found = []
    for part in url.removeprefix(SCHEME).split(","):
        host, colon, port = part.strip().rpartition(":")
        if not colon:
            host, port = port, str(PORT)
        if not host or not port.isascii() or not port.isdigit():
            raise InvalidConfig(f"meta.url: {part!r} is not HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    return tuple(found)


def target_of(url: str) -> str:
    """As gRPC has it. One channel to all of them finds another when one is gone; a name of a host
    would be one server only."""
    try:
        addresses = [f"{address_of(host)}:{port}" for host, port in endpoints_of(url)]
    except Unreachable as error:
        raise EtcdUnavailable(f"etcd: {error}") from None
    return "ipv4:" + ",".join(addresses)


class EtcdApi:
    """`prefix` comes before every key. Used by any thread."""

    def __init__(self, url: str, prefix: bytes, tls: TlsOfEtcd | None = None) -> None:
        self._url, self._prefix = url, prefix
        target = target_of(url)
        if tls is None:
            self._channel = grpc.insecure_channel(target, OPTIONS)
        else:
            self._channel = grpc.secure_channel(target, tls.credentials(), OPTIONS)
        self._range = self._method("/etcdserverpb.KV/Range", pb.RangeRequest, pb.RangeResponse)
        self._txn = self._method("/etcdserverpb.KV/Txn", pb.TxnRequest, pb.TxnResponse)

    def _method(self, path: str, request: Any, response: Any) -> Any:
        return self._channel.unary_unary(
            path,
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )

    def close(self) -> None:
        self._channel.close()

    # -- keys ------------------------------------------------------------------------------------

    def page(
        self, begin: bytes, end: bytes, limit: int, revision: int
    ) -> tuple[list[tuple[bytes, bytes]], int]:
        """Rows from `begin` to before `end`, in order, and the revision that they are of. 0 asks
        for the newest; all pages of one reading ask for the same."""
        request = pb.RangeRequest(
            key=self._prefix + begin, range_end=self._prefix + end, limit=limit, revision=revision
        )
        answer = self._call(self._range, request)
        cut = len(self._prefix)
        return [(row.key[cut:], row.value) for row in answer.kvs], answer.header.revision

    def change(self, compares: Sequence[pb.Compare], changes: Sequence[pb.RequestOp]) -> bool:
        """All changes, if all comparisons hold; False when one does not."""
        answer = self._call(self._txn, pb.TxnRequest(compare=compares, success=changes))
        return bool(answer.succeeded)

    def put(self, key: bytes, value: bytes) -> pb.RequestOp:
        return pb.RequestOp(request_put=pb.PutRequest(key=self._prefix + key, value=value))

    def delete(self, begin: bytes, end: bytes = b"") -> pb.RequestOp:
        """The key, or with `end` all from `begin` to before it."""
        request = pb.DeleteRangeRequest(
            key=self._prefix + begin, range_end=self._prefix + end if end else b""
        )
        return pb.RequestOp(request_delete_range=request)

    def created_at(self, key: bytes, revision: int) -> pb.Compare:
        """That the key was made at this revision and not removed since."""
        return pb.Compare(
            result=pb.Compare.EQUAL,
            target=pb.Compare.CREATE,
            key=self._prefix + key,
            create_revision=revision,
        )

    def _call(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=CALL_S)
        except grpc.RpcError as error:
            reason = f"{error.code().name}: {error.details()}"
            raise EtcdUnavailable(f"etcd at {self._url.removeprefix(SCHEME)}: {reason}") from None

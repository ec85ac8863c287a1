"""A client that sends any frame, and reads answers without taking them apart unless asked."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any

from stratamq.wire.kafka.protocol import APIS, decode_response, encode_request
from stratamq.wire.kafka.protocol.schema import message_of

SECONDS_MAX = 60


class Closed(Exception):
    """The node has closed the connection."""


def frame_of(body: object, version: int | None = None, correlation_id: int = 0) -> bytes:
    """A request as it goes over the wire, in its newest version unless said otherwise."""
    if version is None:
        version = newest(body)
    return b"".join(encode_request(body, version, correlation_id, "attack"))


def newest(body: object) -> int:
    return APIS[message_of(type(body)).key].versions.last


class RawClient:
    """One blocking connection. It sends what it is given and says how long the answers are."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, frame: bytes) -> None:
        try:
            self._socket.sendall(frame)
        except ConnectionError:
            raise Closed("before the request was whole") from None

    def give_up_after(self, seconds: float) -> None:
        """TimeoutError from then on, where the node neither takes nor sends anything."""
        self._socket.settimeout(seconds)

    def finish(self) -> None:
        """Send no more; what is on its way can still be read."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def is_closed(self) -> bool:
        """Whether the node closes the connection; what it still answers is thrown away."""
        try:
            while self._socket.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        except TimeoutError:
            return False
        return True

    def answer(self) -> bytes:
        """The next frame, without its size."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, body: object, version: int | None = None) -> bytes:
        self.send(frame_of(body, version))
        return self.answer()

    def asked(self, body: object, version: int | None = None) -> Any:
        """The decoded answer."""
        version = newest(body) if version is None else version
        return decode_response(self.ask(body, version), message_of(type(body)).key, version).body

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        data = bytearray(count)
        view, filled = memoryview(data), 0
        while filled < count:
            try:
                part = self._socket.recv_into(view[filled:])
            except ConnectionError:
                part = 0
            if not part:
                raise Closed("before the answer was whole")
            filled += part
        return bytes(data)


@contextlib.contextmanager
def connected(host: str, port: int) -> Iterator[RawClient]:
    client = RawClient(host, port)
    try:
        yield client
    finally:
        client.close()

"""A port in front of a node that passes everything on and writes down which requests came."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

HEADER = struct.Struct(">ihh")
"""Size of the frame, API key, version."""


class Listening:
    """`seen` has the key and version of every request, in the order in which they came."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []
        self.target: tuple[str, int] | None = None
        self._server = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._server]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        return int(self._server.getsockname()[1])

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                assert self.target
                node = socket.create_connection(self.target)
                self._sockets += [client, node]
                for work in ((self._requests, client, node), (_copy, node, client)):
                    thread = threading.Thread(target=work[0], args=work[1:], daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _requests(self, client: socket.socket, node: socket.socket) -> None:
        with contextlib.suppress(OSError), client.makefile("rb") as frames:
            while len(header := frames.read(HEADER.size)) == HEADER.size:
                size, key, version = HEADER.unpack(header)
                self.seen.append((key, version))
                node.sendall(header + frames.read(size - HEADER.size + 4))
        _end(node)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    _end(target)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@contextmanager
def listening() -> Iterator[Listening]:
    made = Listening()
    try:
        yield made
    finally:
        made.close()

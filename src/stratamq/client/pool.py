"""Connections, one per node, made when they are needed and made again when they broke."""

from __future__ import annotations

import asyncio

from stratamq.client.connection import NodeConnection, connect
from stratamq.client.options import ClientOptions, Server
from stratamq.model.errors import Closed
from stratamq.net.tls import TlsContext, client_context


class Pool:
    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._tls = tls_of(options)
        self._open: dict[Server, NodeConnection] = {}
        self._making: dict[Server, asyncio.Lock] = {}
        self._closed = False

    async def get(self, server: Server) -> NodeConnection:
        """Unreachable or Denied when there is no connection to be had."""
        if self._closed:
            raise Closed("the client is closed")
        known = self._open.get(server)
        if known is not None and known.is_open:
            return known
        async with self._making.setdefault(server, asyncio.Lock()):
            known = self._open.get(server)
            if known is None or not known.is_open:
                known = self._open[server] = await connect(server, self._options, self._tls)
            return known

    def close(self) -> None:
        self._closed = True
        for connection in self._open.values():
            connection.close()
        self._open.clear()


def tls_of(options: ClientOptions) -> TlsContext | None:
    if options.tls is None:
        return None
    files = options.tls
    return client_context(
        authorities=files.authorities, certificate=files.certificate, key=files.key
    )

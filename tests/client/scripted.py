"""Peers that answer as they are told: for what one real node cannot do, such as not to lead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from stratamq.client.options import Server
from stratamq.wire.kafka.protocol import (
    ALL_VERSIONS,
    FrameReceiver,
    api_versions_response,
    decode_request,
    encode_response,
)
from stratamq.wire.kafka.protocol.messages.api_versions import ApiVersionsRequest

Script = Mapping[type, Callable[[object], object | None]]
"""An answer for each kind of request; None closes the connection instead."""


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[Server]:
    ending: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ending.append(writer)
        splitter = FrameReceiver()
        while data := await reader.read(1 << 16):
            splitter.feed(data)
            while (frame := splitter.next_frame()) is not None:
                header, body, _ = decode_request(frame)
                answer = _answer(script, body)
                if answer is None:
                    writer.close()
                    return
                writer.writelines(encode_response(header, answer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Server("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for writer in ending:
            writer.close()
        await server.wait_closed()
        await asyncio.sleep(0)


def _answer(script: Script, body: object) -> object | None:
    if isinstance(body, ApiVersionsRequest):
        return api_versions_response(ALL_VERSIONS)
    return script[type(body)](body)

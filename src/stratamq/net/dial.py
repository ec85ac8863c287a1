"""Connections that we make."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import socket
import ssl
from collections.abc import Callable

from stratamq.model.errors import Unreachable
from stratamq.net.connection import Connection, Session
from stratamq.net.tls import TlsContext

WATER_BYTES = (4 << 20, 1 << 20)
"""How much may wait to be sent before writing pauses, and how little before it goes on."""

_numbers = itertools.count(1)
_NUMBER = re.compile(r"\[Errno (\d+)\]")


class _OpenGate:
    """Admits every connection that we made ourselves."""

    received_bytes = sent_bytes = 0

    def admit(self, connection: Connection) -> bool:
        return True

    def left(self, connection: Connection) -> None:
        pass


async def dial(
    host: str,
    port: int,
    make_session: Callable[[Connection], Session],
    *,
    tls: TlsContext | None = None,
    timeout_s: float = 10.0,
) -> Connection:
    """A connection that is ready. Unreachable, in one sentence, when there is none in time."""

    def connected() -> Connection:
        return Connection(next(_numbers), _OpenGate(), make_session, WATER_BYTES)

    try:
        async with asyncio.timeout(timeout_s):
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(connected, host, port, ssl=tls)
    except TimeoutError:
        raise Unreachable(f"{host}:{port} does not answer within {timeout_s:g} s") from None
    except ssl.SSLError as error:
        raise Unreachable(f"{host}:{port}: TLS failed ({error.reason or error})") from None
    except OSError as error:
        raise Unreachable(f"{host}:{port} cannot be reached ({reason(error)})") from None
    return connection


def address_of(host: str) -> str:
    """Its first IPv4 address; Unreachable where there is none."""
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise Unreachable(f"{host} cannot be reached ({reason(error)})") from None
    return str(found[0][4][0])


def reason(error: OSError) -> str:
    """In the system's words, such as `Connection refused`, without the event loop's around them.

    A name with several addresses fails with all their errors in one text.
    """
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    numbers = {error.errno} if error.errno else set(map(int, _NUMBER.findall(str(error))))
    return " / ".join(sorted(os.strerror(one) for one in numbers)) or str(error)

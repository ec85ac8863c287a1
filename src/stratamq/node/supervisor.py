"""Tells the service manager that started this process how it is: systemd, with `Type=notify`.

It is there if the environment names its socket. What it gets to know:

| when                                              | message                            |
|---------------------------------------------------|------------------------------------|
| clients can connect                               | `READY=1`, the ready line as status |
| a stop was asked for                              | `STOPPING=1`                       |
| twice in `WATCHDOG_USEC`, if the event loop turns | `WATCHDOG=1`                       |

A manager that cannot be reached is a line in the log and nothing else: clients are served all the
same.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

log = logging.getLogger("stratamq.node")

ABSTRACT = "@"
"""Stands for the zero byte with which the name of a socket begins that is no file."""


class Supervisor:
    """The service manager, or nobody."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith(ABSTRACT) else address
        watched = environ.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        microseconds = environ.get("WATCHDOG_USEC", "")
        self._watchdog_s = int(microseconds) / 1e6 if watched and microseconds.isdigit() else 0.0

    def say(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            fields = {"socket": self._address, "reason": error.strerror}
            log.warning("the service manager cannot be reached", extra={"fields": fields})
            self._address = ""

    @contextmanager
    def watched(self, ready_line: str) -> Iterator[None]:
        """For as long as the node serves."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None

        def beat() -> None:
            nonlocal timer
            self.say("WATCHDOG=1")
            timer = loop.call_later(self._watchdog_s / 2, beat)

        self.say("READY=1", f"STATUS={ready_line}")
        if self._address and self._watchdog_s:
            beat()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
            self.say("STOPPING=1")

"""moto's S3 server as a process of its own, on loopback, with everything in its memory."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

from tests.waiting import wait_until

START_SECONDS_MAX = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running() -> Iterator[str]:
    """The server's address, for as long as it runs."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(START_SECONDS_MAX)


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    def is_up() -> bool:
        assert process.poll() is None, "the S3 server ended"
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(f"{address}/moto-api/", timeout=5).close()
            return True
        return False

    wait_until(is_up, "the S3 server answers", START_SECONDS_MAX)

"""rclone's S3 server, which checks signatures and digests. It keeps no metadata and knows no
conditions."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.peers.s3 import START_SECONDS_MAX, free_port
from tests.waiting import wait_until

RCLONE = Path(sys.executable).parent / "rclone"


@contextlib.contextmanager
def running(folder: Path, key_id: str, secret: str) -> Iterator[str]:
    """The server's address, for as long as it runs; buckets are folders below `folder`."""
    port = free_port()
    process = subprocess.Popen(
        [
            RCLONE,
            "serve",
            "s3",
            f"--addr=127.0.0.1:{port}",
            f"--auth-key={key_id},{secret}",
            f"--config={folder / 'rclone.conf'}",
            f"--cache-dir={folder / 'cache'}",
            folder / "buckets",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(START_SECONDS_MAX)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    def is_up() -> bool:
        assert process.poll() is None, "rclone ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    wait_until(is_up, "rclone answers", START_SECONDS_MAX)

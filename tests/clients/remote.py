"""A client in another language, driven from here: one process, a JSON object per line each way.

Starting a JVM costs a second, so the process stays for all tests of a worker. Bytes travel as text
in which every character is one byte (`as_text`, `as_bytes`).
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

CALL_SECONDS_MAX = 60


class RemoteError(Exception):
    """The client raised: `kind` is the name of its exception."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Remote:
    """Calls are answered one after the other."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, what: str, **arguments: object) -> Any:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"do": what, **arguments}) + "\n")
        self._process.stdin.flush()
        try:
            line = self._answers.get(timeout=CALL_SECONDS_MAX)
        except queue.Empty:
            self._process.kill()  # a late answer must not be taken for that to another call
            raise AssertionError(f"{what}: no answer\n{self.logged()}") from None
        assert line, f"{what}: the client has ended\n{self.logged()}"
        answer = json.loads(line)
        if "error" in answer:
            raise RemoteError(answer["error"], answer["message"])
        return answer["result"]

    def logged(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(CALL_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout
        self._process.stdout.close()
        self._log.close()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")


@contextlib.contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[Remote]:
    remote = Remote(command, environment)
    try:
        yield remote
    finally:
        remote.close()


def as_text(value: bytes) -> str:
    return value.decode("latin-1")


def as_bytes(text: str) -> bytes:
    return text.encode("latin-1")

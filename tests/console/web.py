"""A client of the console."""

from __future__ import annotations

import http.client
import json
import re
from typing import Any, NamedTuple

CONSOLE = re.compile(r" console=(\S+):(\d+) ")
SECONDS_MAX = 30


class Answer(NamedTuple):
    status: int
    kind: str
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


def address_of(ready: str) -> tuple[str, int]:
    """Where the console is, as the ready line has it."""
    found = CONSOLE.search(ready)
    assert found, ready
    return found[1], int(found[2])


def get(address: tuple[str, int], path: str) -> Answer:
    connection = http.client.HTTPConnection(*address, timeout=SECONDS_MAX)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read().decode()
        return Answer(response.status, response.headers.get("Content-Type", ""), text)
    finally:
        connection.close()

"""Whether anybody is where tasks are to run. Spark itself finds out after minutes, or never."""

from __future__ import annotations

import re
import socket
from urllib.parse import urlsplit

from stratamq.model.errors import InvalidConfig, StrataError

MASTER_PORT = 7077
CONNECT_PORT = 15002
ANSWER_SECONDS_MAX = 10
_KNOWN = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|spark://.+|yarn|k8s://.+")


def check_master(master: str) -> None:
    """InvalidConfig for what Spark does not know; StrataError when none of the masters of a
    standalone cluster answers. Others are left to Spark."""
    if not _KNOWN.fullmatch(master):
        raise InvalidConfig(
            f"a master is local[2], spark://host:port, yarn or k8s://host, not {master!r}"
        )
    if master.startswith("spark://"):
        places = master.removeprefix("spark://").split(",")
        if not any(_answers(place, MASTER_PORT) for place in places):
            raise StrataError(f"no Spark master answers at {master}")


def check_server(remote: str) -> None:
    """The same for a Spark Connect server."""
    if not remote.startswith("sc://"):
        raise InvalidConfig(f"a Spark Connect server is sc://host:port, not {remote!r}")
    place = urlsplit(remote).netloc
    if not _answers(place, CONNECT_PORT):
        raise StrataError(f"no Spark Connect server answers at sc://{place}")


def _answers(place: str, usual_port: int) -> bool:
    try:
        found = urlsplit(f"//{place}")
        address = (found.hostname or "", found.port or usual_port)
        socket.create_connection(address, ANSWER_SECONDS_MAX).close()
    except (OSError, ValueError):
        return False
    return True

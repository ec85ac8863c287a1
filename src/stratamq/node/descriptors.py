"""How the file descriptors of a process are shared by its files and its connections.

    reserved       RocksDB, object stores, connections to other nodes, whatever is open for a moment
    files          segment files that stay open
    connections    the rest

A connection over its share is closed at once, so that clients cannot take the descriptors that
shards need: a client comes back, and a shard that cannot open its file refuses writes.
"""

from __future__ import annotations

import logging
import resource
from typing import NamedTuple

from stratamq.model.config import NodeConfig

log = logging.getLogger(__name__)

RESERVED_MIN = 64
"""What an idle node has open, twice. Less is reserved only where there is little altogether."""

FILES_MIN = 16
UNLIMITED = 1 << 30


class Descriptors(NamedTuple):
    """The shares of files and connections, of a process that may have `limit` descriptors."""

    limit: int
    reserved: int
    files_max: int

    def connections_max(self, wanted: int) -> int:
        """Cut the number of wanted connections to the descriptors that are left; at least one."""
        return max(min(wanted, self.limit - self.reserved - self.files_max), 1)


def wanted(config: NodeConfig) -> int:
    return (
        config.number("files.reserved")
        + config.number("files.open.max")
        + config.number("kafka.connections.max")
    )


def share_out(limit: int, config: NodeConfig) -> Descriptors:
    """Each share as it is configured, where that is possible. Otherwise up to a quarter of the
    descriptors is reserved, and connections and files get half of the rest, or what the others
    leave."""
    connections = config.number("kafka.connections.max")
    reserved = min(config.number("files.reserved"), max(limit // 4, RESERVED_MIN), limit // 2)
    if limit >= wanted(config):
        reserved = config.number("files.reserved")
    rest = limit - reserved
    files = min(config.number("files.open.max"), max(rest // 2, rest - connections))
    return Descriptors(limit, reserved, max(files, FILES_MIN))


def raise_limit() -> None:
    """The soft limit of the process becomes the hard one, where the system allows that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            log.warning("the limit of open files could not be raised", exc_info=True)


def descriptors(config: NodeConfig) -> Descriptors:
    """Share out the descriptors that the process may have now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return share_out(UNLIMITED if soft == resource.RLIM_INFINITY else soft, config)


def warn_if_few(shares: Descriptors, config: NodeConfig) -> None:
    if shares.limit < wanted(config):
        fields = {
            "limit": shares.limit,
            "wanted": wanted(config),
            "files": shares.files_max,
            "connections": shares.connections_max(config.number("kafka.connections.max")),
        }
        log.warning("fewer open files are allowed than configured", extra={"fields": fields})

"""A small client over the Kafka protocol: for followers, Spark's executors, the CLI and users.

`options` says where and how, `connection` talks to one node, `router` finds the right one and
retries, and each family of calls has a file; those of administrators are in `admin`. `Client` is
for asyncio, `BlockingClient` for threads.
"""

from __future__ import annotations

from stratamq.client.blocking import BlockingClient
from stratamq.client.client import EARLIEST, LATEST, Client
from stratamq.client.cluster import ClusterView, TopicPartition, TopicView
from stratamq.client.fetching import Aborted, Fetched, FetchLimits, visible_batches
from stratamq.client.offsets import GroupOffset, Undecided
from stratamq.client.options import ClientOptions, Login, Server, TlsFiles, options_of
from stratamq.client.transactions import Handle, Transaction

__all__ = [
    "EARLIEST",
    "LATEST",
    "Aborted",
    "BlockingClient",
    "Client",
    "ClientOptions",
    "ClusterView",
    "FetchLimits",
    "Fetched",
    "GroupOffset",
    "Handle",
    "Login",
    "Server",
    "TlsFiles",
    "TopicPartition",
    "TopicView",
    "Transaction",
    "Undecided",
    "options_of",
    "visible_batches",
]

"""Which version of each API we speak with a node: the newest that both know, within our caps.

Topics go by name unless a caller asks for one id, so that a topic that was deleted and made again
under its old name is found; and transactions name their partitions before they write to them, which
every broker understands.
"""

from __future__ import annotations

from collections.abc import Mapping

from stratamq.model.errors import UnsupportedFormat
from stratamq.wire.kafka.protocol import APIS, Versions
from stratamq.wire.kafka.protocol.messages.api_versions import ApiVersionsResponse

CAPS: Mapping[int, int] = {
    0: 11,  # Produce: from 12 on it may add partitions to a transaction by itself
    1: 12,  # Fetch: from 13 on by topic id
    8: 9,  # OffsetCommit: from 10 on by topic id
    9: 7,  # OffsetFetch: from 8 on many groups
    10: 3,  # FindCoordinator: from 4 on many keys
    22: 4,  # InitProducerId: from 5 on with the newer transactions
    24: 3,  # AddPartitionsToTxn: from 4 on for brokers
    26: 4,  # EndTxn: from 5 on it changes the producer's epoch
    28: 4,  # TxnOffsetCommit: from 5 on it adds the group by itself
}

FETCH_BY_ID_CAP = 17
"""Fetch, where the caller names the id. A node that knows no ids is asked by name all the same."""

Offered = Mapping[int, Versions]


def offered_by(response: ApiVersionsResponse) -> Offered:
    return {one.api_key: Versions(one.min_version, one.max_version) for one in response.api_keys}


def version_for(key: int, offered: Offered, cap: int | None = None) -> int:
    """UnsupportedFormat when there is none in common. `cap` replaces ours."""
    api, theirs = APIS[key], offered.get(key)
    if theirs is not None:
        ours = CAPS.get(key, api.versions.last) if cap is None else cap
        last = min(api.versions.last, theirs.last, ours)
        if last >= max(api.versions.first, theirs.first):
            return last
    raise UnsupportedFormat(f"the node does not serve {api.name} in a version that we speak")

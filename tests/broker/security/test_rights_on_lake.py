"""History and tables: who may read a topic may see where it lies, and no more."""

from __future__ import annotations

from pathlib import Path

from stratamq.broker.kafka.security.apis.table import TABLE
from stratamq.model.access import Operation, ResourceKind
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages import lake
from tests.broker.security.requests import SAMPLES, TOPIC
from tests.broker.security.support import client, codes, front, rule


async def test_who_may_only_read_cannot_put_files_in_place_of_others(tmp_path: Path) -> None:
    sample = SAMPLES[lake.CommitLakeRequest].make(0, b"")
    assert TABLE[lake.CommitLakeRequest].needs == "ALTER topic"
    async with front(tmp_path, authorizer="acl") as door, client(door.port) as peer:
        await door.core.topics.create(TOPIC, partitions=1, replicas=1)
        await door.allow(rule(Operation.READ, ResourceKind.TOPIC, TOPIC))
        assert codes(await peer.ask(sample)) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        await door.allow(rule(Operation.ALTER, ResourceKind.TOPIC, TOPIC))
        assert ErrorCode.TOPIC_AUTHORIZATION_FAILED not in codes(await peer.ask(sample))

"""Deleting single records of a topic, by key or by offset: an API that Kafka does not have."""

from __future__ import annotations

from stratamq.client.cluster import TopicPartition
from stratamq.client.connection import NodeConnection
from stratamq.client.failures import check
from stratamq.client.router import Router
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    DeleteSelectedRecordsRequest,
    DeleteSelectedRecordsResponse,
    SelectedRecords,
)


async def delete_by_key(router: Router, place: TopicPartition, key: bytes) -> int:
    """Delete every record of the key in the partition; return how many there were."""
    selected = SelectedRecords(name=place.topic, partition_index=place.partition, key=key)
    return await _delete(router, place, selected)


async def delete_by_offset(router: Router, place: TopicPartition, offset: int) -> bool:
    """Delete one record; False when there is none that a reader could see at the offset."""
    selected = SelectedRecords(name=place.topic, partition_index=place.partition, offset=offset)
    return bool(await _delete(router, place, selected))


async def _delete(router: Router, place: TopicPartition, selected: SelectedRecords) -> int:
    timeout_ms = router.options.request_ms_max
    request = DeleteSelectedRecordsRequest(topics=[selected], timeout_ms=timeout_ms)

    async def once(node: NodeConnection) -> int:
        answer = (await node.ask(request, DeleteSelectedRecordsResponse, router.request_s)).topics[
            0
        ]
        check(answer.error_code, f"delete records of {place}", answer.error_message)
        return answer.deleted

    return await router.on_leader(place, once)

"""OffsetFetch: one group or several, some topics or all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.groups.coordinator import GroupCoordinator
from stratamq.broker.kafka.groups.failures import group_code
from stratamq.broker.kafka.groups.offsets.members import OffsetGuard
from stratamq.broker.kafka.groups.offsets.places import Places, wire_id
from stratamq.meta.state import Offsets
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import StrataError
from stratamq.model.types import ShardName
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

BATCHED_FROM = 8
IDS_FROM = 10
GROUP_ERROR_FROM = 2


@dataclass(frozen=True, slots=True)
class _View:
    """What one group has committed, as one request may see it."""

    group: str
    offsets: Offsets
    places: Places
    stable_only: bool


class FetchApi:
    def __init__(self, coordinator: GroupCoordinator, guard: OffsetGuard) -> None:
        self._coordinator = coordinator
        self._guard = guard

    async def fetch(self, request: OffsetFetchRequest, caller: Caller) -> OffsetFetchResponse:
        if caller.version >= BATCHED_FROM:
            groups = [await self._group(one, request, caller) for one in _merged(request.groups)]
            return OffsetFetchResponse(groups=groups)
        found = await self._group(_as_group(request), request, caller)
        response = _as_single(found)
        if caller.version < GROUP_ERROR_FROM and found.error_code:
            response.topics = _failed(request, found.error_code)
        return response

    async def _group(
        self, group: OffsetFetchRequestGroup, request: OffsetFetchRequest, caller: Caller
    ) -> OffsetFetchResponseGroup:
        name = group.group_id
        error = self._guard.fetch_error(name, group.member_id, group.member_epoch)
        offsets: Offsets = {}
        try:
            if error is ErrorCode.NONE:
                offsets = await self._coordinator.services.offsets.committed(name)
        except StrataError as failure:
            error = group_code(failure)
        if error is not ErrorCode.NONE:
            return OffsetFetchResponseGroup(group_id=name, topics=[], error_code=error)
        cache = self._coordinator.services.broker_cache
        places = Places(cache, by_id=caller.version >= IDS_FROM)
        view = _View(name, offsets, places, request.require_stable)
        topics = self._all(view) if group.topics is None else self._some(view, group.topics)
        return OffsetFetchResponseGroup(group_id=name, topics=topics)

    def _some(
        self, view: _View, asked: Iterable[OffsetFetchRequestTopics]
    ) -> list[OffsetFetchResponseTopics]:
        topics = []
        for one in _merged_topics(asked):
            topic = view.places.topic(one.name, one.topic_id)
            partitions = []
            for number in one.partition_indexes:
                place = view.places.place(topic, number)
                unknown_id = place.error is ErrorCode.UNKNOWN_TOPIC_ID
                error = place.error if unknown_id else ErrorCode.NONE
                partitions.append(self._partition(view, place.shard, number, error))
            topics.append(
                OffsetFetchResponseTopics(
                    name=one.name, topic_id=one.topic_id, partitions=partitions
                )
            )
        return topics

    def _all(self, view: _View) -> list[OffsetFetchResponseTopics]:
        """Everything committed in topics that still exist."""
        topics: dict[str, OffsetFetchResponseTopics] = {}
        for shard in sorted(view.offsets):
            owner = view.places.owner(shard)
            if owner is None:
                continue
            topic, number = owner
            answer = topics.setdefault(
                topic.name,
                OffsetFetchResponseTopics(name=topic.name, topic_id=wire_id(topic), partitions=[]),
            )
            one = self._partition(view, shard, number, ErrorCode.NONE)
            answer.partitions = [*answer.partitions, one]
        return list(topics.values())

    def _partition(
        self, view: _View, shard: ShardName | None, number: int, error: ErrorCode
    ) -> OffsetFetchResponsePartitions:
        """Offset -1 where nothing was committed, which is no error."""
        pending = self._coordinator.pending
        if shard is not None and view.stable_only and pending.is_pending(view.group, shard):
            error = ErrorCode.UNSTABLE_OFFSET_COMMIT
        found = view.offsets.get(shard) if shard is not None and not error else None
        return OffsetFetchResponsePartitions(
            partition_index=number,
            committed_offset=-1 if found is None else found.offset,
            committed_leader_epoch=-1 if found is None else found.leader_epoch,
            metadata="" if found is None else found.metadata,
            error_code=error,
        )


def _merged(groups: Sequence[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """Each group once: an offset's metadata may be a thousand times larger than its place in a
    request, so nothing is answered twice."""
    topics: dict[str, list[OffsetFetchRequestTopics] | None] = {}
    for group in groups:
        if group.topics is None:
            topics[group.group_id] = None
        elif (some := topics.setdefault(group.group_id, [])) is not None:
            some.extend(group.topics)
    first = {group.group_id: group for group in reversed(groups)}
    return [replace(first[name], topics=some) for name, some in topics.items()]


def _merged_topics(
    topics: Iterable[OffsetFetchRequestTopics],
) -> list[OffsetFetchRequestTopics]:
    numbers: dict[tuple[str, bytes], dict[int, None]] = {}
    for topic in topics:
        some = numbers.setdefault((topic.name, bytes(topic.topic_id)), {})
        some.update(dict.fromkeys(topic.partition_indexes))
    return [
        OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=list(some))
        for (name, topic_id), some in numbers.items()
    ]


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Versions up to 7 ask for one group, by topic names."""
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(
                name=one.name, topic_id=NO_UUID, partition_indexes=one.partition_indexes
            )
            for one in topics
        ],
    )


def _as_single(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=one.partition_index,
                    committed_offset=one.committed_offset,
                    committed_leader_epoch=one.committed_leader_epoch,
                    metadata=one.metadata,
                    error_code=one.error_code,
                )
                for one in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def _failed(request: OffsetFetchRequest, error: int) -> Sequence[OffsetFetchResponseTopic]:
    """Version 1 has no place for a group's error but its partitions."""
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=number, committed_offset=-1, metadata="", error_code=error
                )
                for number in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]

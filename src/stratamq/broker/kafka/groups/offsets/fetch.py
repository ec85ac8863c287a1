"""OffsetFetch: one group or several, some topics or all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stratamq.broker.kafka.answer_budget import LongAnswer
from stratamq.broker.kafka.cluster import ShardLookup, uuid_of
from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.errors import code_of, coordinator_code
from stratamq.broker.kafka.groups.coordinator import GroupCoordinator
from stratamq.broker.kafka.groups.offsets.commit import OffsetGuard
from stratamq.broker.kafka.turns import paced, paced_sorted
from stratamq.meta.groups import Offsets
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import AnswerTooLarge, StrataError
from stratamq.model.topic import Topic
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
OFFSET_BYTES = 200
"""About what one takes in an answer without its metadata, first as objects and then encoded."""


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """What one group has committed, as one request may see it."""

    group: str
    offsets: Offsets
    lookup: ShardLookup
    stable_only: bool
    answer: LongAnswer


class OffsetFetchApi:
    def __init__(self, coordinator: GroupCoordinator, guard: OffsetGuard) -> None:
        self._coordinator = coordinator
        self._guard = guard

    async def fetch(self, request: OffsetFetchRequest, caller: Caller) -> OffsetFetchResponse:
        answer = self._coordinator.services.answers.begin()
        if caller.version >= BATCHED_FROM:
            groups = [
                await self._group(one, request, caller, answer)
                async for one in paced(request.groups)
            ]
            return OffsetFetchResponse(groups=groups)
        found = await self._group(_as_group(request), request, caller, answer)
        response = _as_single(found)
        if caller.version < GROUP_ERROR_FROM and found.error_code:
            response.topics = _failed(request, found.error_code)
        return response

    async def _group(
        self,
        group: OffsetFetchRequestGroup,
        request: OffsetFetchRequest,
        caller: Caller,
        answer: LongAnswer,
    ) -> OffsetFetchResponseGroup:
        name = group.group_id
        error = self._guard.fetch_error(name, group.member_id, group.member_epoch)
        offsets: Offsets = {}
        try:
            if error is ErrorCode.NONE:
                offsets = await self._coordinator.services.offsets.committed(name)
        except StrataError as failure:
            error = coordinator_code(failure)
        if error is not ErrorCode.NONE:
            return OffsetFetchResponseGroup(group_id=name, topics=[], error_code=error)
        cache = self._coordinator.services.broker_cache
        lookup = ShardLookup(cache, by_id=caller.version >= IDS_FROM)
        view = CommittedOffsets(name, offsets, lookup, request.require_stable, answer)
        try:
            if group.topics is None:
                topics = await self._all(view)
            else:
                topics = await self._some(view, group.topics)
        except AnswerTooLarge as failure:
            code = code_of(failure)
            return OffsetFetchResponseGroup(group_id=name, topics=[], error_code=code)
        return OffsetFetchResponseGroup(group_id=name, topics=topics)

    async def _some(
        self, view: CommittedOffsets, asked: Iterable[OffsetFetchRequestTopics]
    ) -> list[OffsetFetchResponseTopics]:
        topics = []
        async for one in paced(asked):
            topic = view.lookup.topic(one.name, one.topic_id)
            partitions = []
            async for number in paced(one.partition_indexes):
                found = view.lookup.shard(topic, number)
                unknown_id = found.error is ErrorCode.UNKNOWN_TOPIC_ID
                error = found.error if unknown_id else ErrorCode.NONE
                partitions.append(await self._partition(view, found.shard, number, error))
            topics.append(
                OffsetFetchResponseTopics(
                    name=one.name, topic_id=one.topic_id, partitions=partitions
                )
            )
        return topics

    async def _all(self, view: CommittedOffsets) -> list[OffsetFetchResponseTopics]:
        """Everything committed in topics that still exist."""
        topics: dict[str, tuple[Topic, list[OffsetFetchResponsePartitions]]] = {}
        async for name in paced_sorted(view.offsets):
            shard = ShardName(name)
            found = view.lookup.partition(shard)
            if found is None:
                continue
            topic, number = found
            _, partitions = topics.setdefault(topic.name, (topic, []))
            partitions.append(await self._partition(view, shard, number, ErrorCode.NONE))
        return [
            OffsetFetchResponseTopics(
                name=topic.name, topic_id=uuid_of(topic), partitions=partitions
            )
            for topic, partitions in topics.values()
        ]

    async def _partition(
        self, view: CommittedOffsets, shard: ShardName | None, number: int, error: ErrorCode
    ) -> OffsetFetchResponsePartitions:
        """Offset -1 where nothing was committed, which is no error."""
        pending = self._coordinator.pending
        if shard is not None and view.stable_only and pending.is_pending(view.group, shard):
            error = ErrorCode.UNSTABLE_OFFSET_COMMIT
        found = view.offsets.get(shard) if shard is not None and not error else None
        await view.answer.add(OFFSET_BYTES if found is None else OFFSET_BYTES + len(found.metadata))
        return OffsetFetchResponsePartitions(
            partition_index=number,
            committed_offset=-1 if found is None else found.offset,
            committed_leader_epoch=-1 if found is None else found.leader_epoch,
            metadata="" if found is None else found.metadata,
            error_code=error,
        )


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
    """In version 1 only partitions can report an error of the group."""
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

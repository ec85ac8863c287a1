"""OffsetForLeaderEpoch: where an epoch ended, for those who must not read past it."""

from __future__ import annotations

from collections.abc import Mapping

from stratamq.broker.kafka.contract import Caller, Family, Handled, Services
from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.turns import paced
from stratamq.model.errors import StrataError
from stratamq.model.types import NO_EPOCH, NO_OFFSET, LeaderEpoch
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


class LeaderEpochs(Family):
    """The family of one API."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handlers(self) -> Mapping[type, Handled]:
        return {OffsetForLeaderEpochRequest: Handled(self.end_offsets)}

    async def end_offsets(
        self, request: OffsetForLeaderEpochRequest, caller: Caller
    ) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[
                        await self._end(topic.topic, one) async for one in paced(topic.partitions)
                    ],
                )
                async for topic in paced(request.topics)
            ]
        )

    async def _end(self, name: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        number = wanted.partition
        try:
            shard, current = await self._services.partitions.led(
                name, number, wanted.current_leader_epoch
            )
            asked = LeaderEpoch(wanted.leader_epoch)
            epoch, end = shard.end_of_epoch(asked)
            if asked > current:
                epoch, end = NO_EPOCH, NO_OFFSET
            elif asked == current:  # it is still being written, perhaps without a record yet
                epoch, end = asked, shard.offsets().end
        except StrataError as error:
            code = code_of(error)
            return EpochEndOffset(partition=number, error_code=code)
        return EpochEndOffset(partition=number, leader_epoch=epoch, end_offset=end)

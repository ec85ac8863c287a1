"""DeleteTopics: by name, or by id from version 6 on."""

from __future__ import annotations

import asyncio

from stratamq.broker.kafka.admin.answers import failure, named_twice, twice
from stratamq.broker.kafka.admin.deadline import Workshop
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.topics import Refused, find, uuid_of
from stratamq.model.errors import StrataError
from stratamq.model.topic import Topic
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_DISABLED_SINCE = 3


class DeleteTopics:
    def __init__(self, services: Services, workshop: Workshop) -> None:
        self._services, self._workshop = services, workshop

    async def delete(self, request: DeleteTopicsRequest, caller: Caller) -> DeleteTopicsResponse:
        asked = [
            *request.topics,
            *(DeleteTopicState(name=name, topic_id=NO_UUID) for name in request.topic_names),
        ]
        doubled = named_twice((one.name, one.topic_id) for one in asked)
        each = {(one.name, one.topic_id): one for one in asked}
        answers = [
            self._topic(one, request.timeout_ms, key in doubled, caller)
            for key, one in each.items()
        ]
        return DeleteTopicsResponse(responses=await asyncio.gather(*answers))

    async def _topic(
        self, asked: DeleteTopicState, timeout_ms: int, doubled: bool, caller: Caller
    ) -> DeletableTopicResult:
        name, topic_id = asked.name, asked.topic_id
        try:
            self._check_allowed(caller)
            if doubled:
                raise twice(name or topic_id.hex())
            topic = self._found(asked)
            name, topic_id = topic.name, uuid_of(topic)
            await self._workshop.within(timeout_ms, self._delete(topic))
        except StrataError as error:
            code, message = failure(error)
            return DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=code, error_message=message
            )
        return DeletableTopicResult(name=name, topic_id=topic_id)

    def _found(self, asked: DeleteTopicState) -> Topic:
        if (asked.name is None) == (asked.topic_id == NO_UUID):
            raise Refused(ErrorCode.INVALID_REQUEST, "a topic is deleted by its name or by its id")
        return find(self._services.broker_cache, asked.name or "", asked.topic_id)

    async def _delete(self, topic: Topic) -> None:
        await self._services.topics.delete(topic.name, topic.topic_id)

    def _check_allowed(self, caller: Caller) -> None:
        if self._services.config.flag("delete.topic.enable"):
            return
        named = caller.version >= _DISABLED_SINCE
        raise Refused(ErrorCode.TOPIC_DELETION_DISABLED if named else ErrorCode.INVALID_REQUEST)

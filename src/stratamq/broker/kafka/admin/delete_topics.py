"""DeleteTopics: by name, or by id from version 6 on."""

from __future__ import annotations

from stratamq.broker.kafka.admin.deadline import Workshop
from stratamq.broker.kafka.cluster import find_topic, uuid_of
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import LATE, ApiError, Refused, api_error, duplicate, duplicates
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
        doubled = duplicates((one.name, one.topic_id) for one in asked)
        each = {(one.name, one.topic_id): one for one in asked}

        async def topic(one: DeleteTopicState) -> DeletableTopicResult:
            return await self._topic(one, (one.name, one.topic_id) in doubled, caller)

        answers = await self._workshop.each(
            list(each.values()), topic, request.timeout_ms, lambda one: _failed(one, LATE)
        )
        return DeleteTopicsResponse(responses=answers)

    async def _topic(
        self, asked: DeleteTopicState, doubled: bool, caller: Caller
    ) -> DeletableTopicResult:
        try:
            self._check_allowed(caller)
            if doubled:
                raise duplicate(asked.name or asked.topic_id.hex())
            topic = self._found(asked)
            await self._services.topics.delete(topic.name, topic.topic_id)
        except StrataError as error:
            return _failed(asked, api_error(error))
        return DeletableTopicResult(name=topic.name, topic_id=uuid_of(topic))

    def _found(self, asked: DeleteTopicState) -> Topic:
        if (asked.name is None) == (asked.topic_id == NO_UUID):
            raise Refused(ErrorCode.INVALID_REQUEST, "a topic is deleted by its name or by its id")
        return find_topic(self._services.broker_cache, asked.name or "", asked.topic_id)

    def _check_allowed(self, caller: Caller) -> None:
        if self._services.config.flag("delete.topic.enable"):
            return
        named = caller.version >= _DISABLED_SINCE
        raise Refused(ErrorCode.TOPIC_DELETION_DISABLED if named else ErrorCode.INVALID_REQUEST)


def _failed(asked: DeleteTopicState, why: ApiError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=asked.name,
        topic_id=asked.topic_id,
        error_code=why.code,
        error_message=why.message,
    )

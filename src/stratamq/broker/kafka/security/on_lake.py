"""Rights to history and tables."""

from __future__ import annotations

from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.lake import (
    CommitLakeTopic,
    CommittedLake,
    DescribedLake,
    FlushedLake,
    LakeTopic,
)

NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def hidden(topic: LakeTopic) -> DescribedLake:
    return DescribedLake(name=topic.name, error_code=NO_TOPIC, error_message=NO_TOPIC.text)


def not_committed(topic: CommitLakeTopic) -> CommittedLake:
    return CommittedLake(name=topic.name, error_code=NO_TOPIC, error_message=NO_TOPIC.text)


def not_flushed(topic: LakeTopic) -> FlushedLake:
    return FlushedLake(name=topic.name, error_code=NO_TOPIC, error_message=NO_TOPIC.text)

"""Where topics' records are, moving them, and making their tables current: APIs of ours alone."""

from __future__ import annotations

from stratamq.client.failures import check
from stratamq.client.router import Router
from stratamq.model.errors import TopicNotFound
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.lake import (
    CommitLakeRequest,
    CommitLakeResponse,
    CommitLakeTopic,
    DescribedLake,
    DescribeLakeRequest,
    DescribeLakeResponse,
    FlushedLake,
    FlushLakeRequest,
    FlushLakeResponse,
    LakeTopic,
)


async def describe_lake(router: Router, topic: str) -> DescribedLake:
    """One consistent cut. TopicNotFound when there is no such topic."""
    request = DescribeLakeRequest(topics=[LakeTopic(name=topic)])

    async def once() -> DescribedLake:
        answer = (await router.ask_any(request, DescribeLakeResponse)).topics[0]
        if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise TopicNotFound(f"there is no topic {topic!r}")
        check(answer.error_code, f"history of {topic!r}", answer.error_message)
        for part in answer.partitions:
            check(part.error_code, f"history of {topic}-{part.partition_index}")
        return answer

    return await router.retried(once)


async def commit_lake(router: Router, commit: CommitLakeTopic) -> None:
    """Replace files by one that was written elsewhere. Safe to repeat."""
    request = CommitLakeRequest(topics=[commit])
    what = f"file of {commit.name}-{commit.partition_index}"

    async def once() -> None:
        answer = (await router.ask_any(request, CommitLakeResponse)).topics[0]
        check(answer.error_code, what, answer.error_message)

    await router.retried(once)


async def flush_lake(router: Router, topic: str) -> FlushedLake:
    """Make everything that is decided visible in the topic's table."""
    timeout_ms = router.options.request_ms_max
    request = FlushLakeRequest(topics=[LakeTopic(name=topic)], timeout_ms=timeout_ms)

    async def once() -> FlushedLake:
        answer = (await router.ask_any(request, FlushLakeResponse)).topics[0]
        check(answer.error_code, f"table of {topic!r}", answer.error_message)
        return answer

    return await router.retried(once)


async def run_tier(router: Router, topic: str, wait_ms: int) -> FlushedLake | None:
    """Do what is due of the topic's history. None when that takes longer than `wait_ms`: it goes
    on, and the next call waits for the same run."""
    request = FlushLakeRequest(topics=[LakeTopic(name=topic)], timeout_ms=wait_ms, moves=True)

    async def once() -> FlushedLake | None:
        answer = (await router.ask_any(request, FlushLakeResponse)).topics[0]
        if answer.error_code == ErrorCode.REQUEST_TIMED_OUT:
            return None
        check(answer.error_code, f"history of {topic!r}", answer.error_message)
        return answer

    return await router.retried(once)


async def node_time_ms(router: Router) -> int:
    """What the clock of a node shows; -1 when it does not say."""
    request = DescribeLakeRequest(topics=[])
    return (await router.ask_any(request, DescribeLakeResponse)).time_ms

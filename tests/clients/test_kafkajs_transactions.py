"""Transactions of kafkajs. Its consumers read only what was committed, unless told otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.node import Node, running
from tests.clients.remote import Remote
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs("node", "npm"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    flags = ("--group-initial-rebalance-delay-ms", "0", "--topic-flush", "os")
    with running(tmp_path_factory.mktemp("kafkajs"), *flags) as node:
        yield node
        assert node.end() == 0, node.logged()


class Transactions:
    """A producer with a transactional id."""

    def __init__(self, kafkajs: Remote, kafka: str, topic: str) -> None:
        self.kafkajs, self.topic = kafkajs, topic
        config = {"transactionalId": f"t-{topic}", "idempotent": True, "maxInFlightRequests": 1}
        kafkajs.call("producer", name="p", kafka=kafka, config=config)

    def begin(self, *values: str) -> None:
        self.kafkajs.call("begin", name="p")
        records = [{"value": value} for value in values]
        self.kafkajs.call("send", name="p", topic=self.topic, records=records)

    def end(self, *, commit: bool, offsets: object = None) -> None:
        self.kafkajs.call("end", name="p", commit=commit, offsets=offsets)


@pytest.fixture
def one(kafkajs: Remote, kafka: str, topic: str) -> Iterator[Transactions]:
    yield Transactions(kafkajs, kafka, topic)
    kafkajs.call("close", name="p")


def read(kafkajs: Remote, kafka: str, topic: str, last: str, *, uncommitted: bool) -> list[str]:
    """Everything up to the value `last`."""
    config = {"groupId": f"{topic}-{uncommitted}-{last}", "readUncommitted": uncommitted}
    kafkajs.call("consumer", name="c", kafka=kafka, topic=topic, config=config)

    def values() -> list[str]:
        return [one["value"] for one in kafkajs.call("read", name="c")]

    wait_until(lambda: last in values(), f"reading up to {last}")
    found = values()
    kafkajs.call("close", name="c")
    return found


def test_only_what_was_committed_is_read(
    kafkajs: Remote, kafka: str, topic: str, one: Transactions
) -> None:
    one.begin("a", "b")
    one.end(commit=True)
    one.begin("never")
    one.end(commit=False)
    one.begin("c")
    one.end(commit=True)
    assert read(kafkajs, kafka, topic, "c", uncommitted=False) == ["a", "b", "c"]
    assert read(kafkajs, kafka, topic, "c", uncommitted=True) == ["a", "b", "never", "c"]


def test_an_open_transaction_holds_readers_back(
    kafkajs: Remote, kafka: str, topic: str, one: Transactions
) -> None:
    one.begin("a")
    one.end(commit=True)
    one.begin("b")
    assert read(kafkajs, kafka, topic, "a", uncommitted=False) == ["a"]
    assert read(kafkajs, kafka, topic, "b", uncommitted=True) == ["a", "b"]
    one.end(commit=True)
    assert read(kafkajs, kafka, topic, "b", uncommitted=False) == ["a", "b"]


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    kafkajs: Remote, kafka: str, topic: str, one: Transactions
) -> None:
    group = f"g-{topic}"

    def offsets(offset: int) -> object:
        partitions = [{"partition": 0, "offset": str(offset)}]
        return {
            "consumerGroupId": group,
            "topics": [{"topic": topic, "partitions": partitions}],
        }

    def committed() -> str:
        asked = {"groupId": group, "topics": [topic]}
        (told,) = kafkajs.call("admin", kafka=kafka, method="fetchOffsets", arguments=[asked])
        return str(told["partitions"][0]["offset"])

    one.begin("a")
    one.end(commit=True, offsets=offsets(7))
    assert committed() == "7"
    one.begin("b")
    one.end(commit=False, offsets=offsets(9))
    assert committed() == "7"

"""Shards' names, topics' configs, clocks and errors."""

from __future__ import annotations

import time

import pytest

from stratamq.model.clock import ManualClock, SystemClock
from stratamq.model.errors import CorruptRecord, InvalidConfig, OffsetOutOfRange
from stratamq.model.settings.topic import Flush, StorageType
from stratamq.model.shard import shard_name, split_shard_name
from stratamq.model.topic import TopicConfig
from stratamq.model.types import ShardName, TopicId

TOPIC = TopicId("0" * 31 + "a")


@pytest.mark.parametrize("partition", [0, 7, 12_345])
def test_a_shard_s_name_says_topic_and_partition(partition: int) -> None:
    name = shard_name(TOPIC, partition)
    assert name == f"{TOPIC}_{partition}"
    assert split_shard_name(name) == (TOPIC, partition)


def test_a_topic_id_with_an_underscore_is_split_at_the_last_one() -> None:
    assert split_shard_name(ShardName("a_b_3")) == ("a_b", 3)


def test_a_topic_config_knows_what_was_given_and_what_is_default() -> None:
    config = TopicConfig.of({"retention.ms": "1000", "storage.type": "EngineMemory"})
    assert config.given == {"retention.ms": 1000, "storage.type": "EngineMemory"}
    assert config.number("retention.ms") == 1000
    assert config.storage_type is StorageType.MEMORY
    assert config.flush is Flush.SYNC
    assert config.flag("index.key")
    assert config["compression.type"] == "producer"


def test_two_topic_configs_are_equal_when_the_same_was_given() -> None:
    assert TopicConfig.of({"flush": "os"}) == TopicConfig.of({"flush": "os"})
    assert TopicConfig.of({"flush": "os"}) != TopicConfig.of()


@pytest.mark.parametrize(
    ("policy", "compacts", "deletes"),
    [
        ("", False, False),
        ("delete", False, True),
        ("compact", True, False),
        ("compact,delete", True, True),
    ],
)
def test_cleanup_policies(policy: str, compacts: bool, deletes: bool) -> None:
    config = TopicConfig.of({"cleanup.policy": policy})
    assert (config.compacts, config.deletes) == (compacts, deletes)


def test_an_unknown_topic_config_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidConfig, match=r"'retention\.ms'"):
        TopicConfig.of({"retenton.ms": 1})


def test_a_manual_clock_moves_when_told() -> None:
    clock = ManualClock(100)
    clock.advance(5)
    assert clock.now_ms() == 105


def test_the_system_clock_counts_milliseconds() -> None:
    before = time.time() * 1000 - 1
    assert before <= SystemClock().now_ms() <= time.time() * 1000 + 1


def test_errors_carry_what_a_handler_needs() -> None:
    outside = OffsetOutOfRange("t_0", 9, 2, 5)
    assert (outside.offset, outside.start, outside.end) == (9, 2, 5)
    assert "t_0: offset 9 is outside 2..5" in str(outside)
    damage = CorruptRecord("a.log", 77, 10, 13, "crc")
    assert (damage.file, damage.position, damage.next_offset) == ("a.log", 77, 13)
    assert "a.log: damaged at byte 77 (crc); offsets 10..12" in str(damage)

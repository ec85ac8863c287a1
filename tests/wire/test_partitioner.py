"""The partition of a key, as every Kafka client computes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.wire.kafka.partitioner import murmur2, partition_for_key
from tests.wire.kafka_python import murmur2 as reference


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_published_values(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_another_client_agrees(key: bytes, partitions: int) -> None:
    assert murmur2(key) & 0xFFFFFFFF == reference(key) & 0xFFFFFFFF
    assert partition_for_key(key, partitions) == (reference(key) & 0x7FFFFFFF) % partitions

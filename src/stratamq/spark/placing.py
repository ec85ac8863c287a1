"""Which partitions keys belong to, a column of them at a time: as Kafka's own clients choose them.

The same hash as `wire.kafka.partitioner`, for all keys of a length at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_SEED = 0x9747B28C
_M = np.uint32(0x5BD1E995)
_WORD_BYTES = 4

Numbers = NDArray[np.int64]


def partitions_of(keys: pa.Array, count: int) -> Numbers:
    """The partition of each key out of `count`. What stands for a null says nothing."""
    places = offsets_of(keys)
    lengths = np.diff(places)
    data = _numbers(keys.buffers()[2], np.uint8)
    hashes = np.zeros(len(keys), np.uint32)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        hashes[rows] = _hashes(data[places[rows, None] + np.arange(length)])
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % count


def offsets_of(array: pa.Array) -> NDArray[np.int32]:
    """Where each of its values begins, and the last one ends."""
    places = _numbers(array.buffers()[1], np.int32)
    return places[array.offset : array.offset + len(array) + 1]


def _numbers(buffer: pa.Buffer | None, kind: type[Any]) -> NDArray[Any]:
    return np.frombuffer(b"" if buffer is None else buffer, kind)


def _hashes(keys: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """MurmurHash2 of keys of one length, each a row of bytes."""
    count, length = keys.shape
    padded = np.zeros((count, -(-length // _WORD_BYTES) * _WORD_BYTES), np.uint8)
    padded[:, :length] = keys
    words = padded.view("<u4").astype(np.uint32)
    whole = length // _WORD_BYTES
    found = np.full(count, (_SEED ^ length) & 0xFFFFFFFF, np.uint32)
    for column in words.T[:whole]:
        mixed = column * _M
        found = (found * _M) ^ ((mixed ^ mixed >> np.uint32(24)) * _M)
    if length % _WORD_BYTES:
        found = (found ^ words[:, whole]) * _M
    found = (found ^ found >> np.uint32(13)) * _M
    return found ^ found >> np.uint32(15)

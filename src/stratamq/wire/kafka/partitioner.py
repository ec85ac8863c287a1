"""Which partition a key belongs to, exactly as Kafka's own clients choose it.

A key must land on the same partition whether a Java client, a Python client or this node places it.
"""

from __future__ import annotations

from struct import iter_unpack

_SEED = 0x9747B28C
_M = 0x5BD1E995
_U32 = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """MurmurHash2 with Kafka's seed, as a signed 32-bit number."""
    whole = len(key) & ~3
    h = (_SEED ^ len(key)) & _U32
    for (word,) in iter_unpack("<I", key[:whole]):
        k = word * _M & _U32
        k = (k ^ k >> 24) * _M & _U32
        h = (h * _M & _U32) ^ k
    if len(key) > whole:
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _U32
    h = (h ^ h >> 13) * _M & _U32
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def partition_for_key(key: bytes, partitions: int) -> int:
    """Kafka drops the sign bit rather than taking the absolute value, and so do we."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions

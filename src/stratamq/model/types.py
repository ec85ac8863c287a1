"""Numbers and names that must not be mixed up."""

from __future__ import annotations

from typing import NewType

Offset = NewType("Offset", int)
"""Place of a record in its shard: 0, 1, 2, ... without holes at the time of writing."""

Position = NewType("Position", int)
"""Byte position inside one segment file."""

TimestampMs = NewType("TimestampMs", int)
"""Milliseconds since the Unix epoch."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Counts the leaders an active segment has had; -1 where none is counted."""

NodeId = NewType("NodeId", int)

ShardName = NewType("ShardName", str)
"""`{topic_id}_{partition_seq}`, see `model/shard.py`."""

TopicId = NewType("TopicId", str)
"""32 hex digits: a UUID without dashes, never used twice, even for a topic of the same name."""

NO_EPOCH = LeaderEpoch(-1)
FIRST_EPOCH = LeaderEpoch(0)
NO_OFFSET = Offset(-1)
NO_TIMESTAMP = TimestampMs(-1)
EARLIEST = Offset(0)

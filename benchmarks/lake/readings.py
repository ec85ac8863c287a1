"""A realistic JSON topic: readings of devices, 1 KiB each, in the batches of a Kafka producer."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator

from stratamq.model.record import Record
from stratamq.model.types import TimestampMs
from stratamq.wire.kafka.records import encode_batch

VALUE_BYTES = 1024
DIFFERENT = 16_384
"""Values are drawn once and used again: 16 MiB apart, further than any window of the codec."""
RECORDS_PER_BATCH = 15
START_MS = 1_700_000_000_000

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Reading",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "device", "type": "string"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "temperature", "type": "double"},
            {"name": "humidity", "type": "double"},
            {"name": "ok", "type": "boolean"},
            {"name": "firmware", "type": "string"},
            {
                "name": "location",
                "type": {
                    "type": "record",
                    "name": "Location",
                    "fields": [
                        {"name": "lat", "type": "double"},
                        {"name": "lon", "type": "double"},
                    ],
                },
            },
        ],
    }
)


def values() -> list[bytes]:
    """Fields first, then a log line of random words: numbers hardly compress, words do somewhat."""
    rng = random.Random(4)
    letters = string.ascii_lowercase
    words = ["".join(rng.choices(letters, k=rng.randint(3, 9))) for _ in range(2000)]
    return [_value(number, rng, words) for number in range(DIFFERENT)]


def _value(number: int, rng: random.Random, words: list[str]) -> bytes:
    fields = {
        "id": number,
        "device": f"device-{rng.randrange(5000):05d}",
        "at": START_MS + number * 7,
        "temperature": round(rng.gauss(20, 5), 3),
        "humidity": round(rng.uniform(0, 100), 2),
        "ok": rng.random() < 0.95,
        "firmware": f"1.{rng.randrange(9)}.{rng.randrange(30)}",
        "location": {
            "lat": round(rng.uniform(-90, 90), 6),
            "lon": round(rng.uniform(-180, 180), 6),
        },
        "message": "",
    }
    room = VALUE_BYTES - len(json.dumps(fields))
    fields["message"] = " ".join(rng.choices(words, k=room // 4))[:room]
    return json.dumps(fields).encode()


def batches(count: int) -> Iterator[bytes]:
    """Without their place: the engine gives it."""
    drawn = values()
    for number in range(count):
        first = number * RECORDS_PER_BATCH
        yield encode_batch(
            [
                Record(
                    drawn[index % DIFFERENT],
                    b"device-%05d" % (index * 7919 % 5000),
                    timestamp=TimestampMs(START_MS + index),
                )
                for index in range(first, first + RECORDS_PER_BATCH)
            ],
            now_ms=START_MS,
        )

"""A client as it should be, in a process of its own: `python -m tests.attack.hostile.well_behaved
ADDRESS`. It writes a hundred records a second and reads them again.

For each line on standard input it prints a line of JSON about the time since the last: how long
records took from `produce` to the consumer, and which errors librdkafka reported. When the input
ends it waits for what is on its way, and says whether every record came once and in order.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from queue import SimpleQueue

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

TOPIC = "good"
PAUSE_S = 0.01
LAST_S_MAX = 30


class WellBehaved:
    def __init__(self, address: str) -> None:
        config = {"bootstrap.servers": address, "error_cb": self._note, "log_level": 0}
        self._producer = Producer({**config, "linger.ms": 0, "message.timeout.ms": 60_000})
        self._consumer = Consumer({**config, "group.id": "good", "enable.auto.commit": False})
        self._sent: list[float] = []
        self._read: list[int] = []
        self._took_ms: list[float] = []
        self._errors: list[str] = []

    def begin(self) -> None:
        """The first record creates the topic."""
        self._produce()
        assert self._producer.flush(LAST_S_MAX) == 0
        self._consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])

    def step(self) -> None:
        due = time.monotonic() + PAUSE_S
        self._produce()
        while (left_s := due - time.monotonic()) > 0:
            self._take(left_s)

    def phase(self) -> dict[str, object]:
        took, self._took_ms = sorted(self._took_ms), []
        errors, self._errors = self._errors, []
        percents = statistics.quantiles(took, n=100)
        return {
            "records": len(took),
            "p50_ms": percents[49],
            "p99_ms": percents[98],
            "max_ms": took[-1],
            "errors": errors,
        }

    def end(self) -> dict[str, object]:
        unsent = self._producer.flush(LAST_S_MAX)
        for _ in range(LAST_S_MAX * 50):
            if len(self._read) < len(self._sent):
                self._take(0.1)
        whole = self._read == list(range(len(self._sent)))
        self._consumer.close()
        return {"unsent": unsent, "sent": len(self._sent), "whole": whole, "errors": self._errors}

    def _produce(self) -> None:
        number = len(self._sent)
        self._sent.append(time.monotonic())
        self._producer.produce(TOPIC, b"%d" % number, on_delivery=self._delivered)
        self._producer.poll(0)

    def _take(self, timeout_s: float) -> None:
        message = self._consumer.poll(timeout_s)
        self._producer.poll(0)
        if message is None:
            return
        if message.error():
            self._note(message.error())
            return
        number = int(message.value())
        self._read.append(number)
        self._took_ms.append((time.monotonic() - self._sent[number]) * 1000)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self._note(error)

    def _note(self, error: object) -> None:
        self._errors.append(str(error))


def main() -> None:
    asked: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        while line := sys.stdin.readline():
            asked.put(line)
        asked.put("")

    reader = threading.Thread(target=read, daemon=True)
    client = WellBehaved(sys.argv[1])
    client.begin()
    reader.start()
    while True:
        client.step()
        if not asked.empty():
            line = asked.get()
            print(json.dumps(client.phase() if line else client.end()), flush=True)
            if not line:
                return


if __name__ == "__main__":
    main()

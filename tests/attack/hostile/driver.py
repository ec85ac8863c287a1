"""Attackers in a process of their own: `python -m tests.attack.hostile.driver PORT SECONDS SEED`.

Every attack is run once, in an order that the seed decides, and then any of them until the time is
over. Ends with one line of JSON: how often each was run, and what must not have happened.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections import Counter
from random import Random

from stratamq.wire.kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.attack.hostile import amplifying, lying, stalling  # noqa: F401 - they fill ATTACKS
from tests.attack.hostile.target import ATTACKS, WIDE, Target

ATTACKERS = 3
REST = 1.0
"""After an attack, its attacker rests as long as it took: what is looked for are stalls, and two
cores that have no time for anybody would hide them."""

FAILURES_MAX = 10


class Attackers:
    def __init__(self, port: int, seconds: float, seed: int) -> None:
        self._port, self._seconds, self._seed = port, seconds, seed
        self._over = threading.Event()
        chance = Random(seed)
        self._first = chance.sample(sorted(ATTACKS), len(ATTACKS))
        self.runs: Counter[str] = Counter()
        self.failures: list[str] = []

    def run(self) -> None:
        ends = time.monotonic() + self._seconds
        threads = [threading.Thread(target=self._attack, args=(n, ends)) for n in range(ATTACKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _attack(self, number: int, ends: float) -> None:
        chance = Random(f"{self._seed}-{number}")
        target = Target("127.0.0.1", self._port, chance, f"{self._seed}-{number}")
        target.prepare()
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=WIDE)])
        target.wide_id = target.ask(asked).topics[0].topic_id
        while (name := self._next(chance)) and len(self.failures) < FAILURES_MAX:
            began = time.monotonic()
            try:
                ATTACKS[name](target)
            except Exception:
                self.failures.append(f"{name}: {traceback.format_exc()}")
            self.runs[name] += 1
            now = time.monotonic()
            if now > ends and not self._first:
                break
            target.hold(REST * (now - began))

    def _next(self, chance: Random) -> str:
        try:
            return self._first.pop()
        except IndexError:
            return chance.choice(sorted(ATTACKS))


if __name__ == "__main__":
    os.nice(19)
    attackers = Attackers(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
    attackers.run()
    print(json.dumps({"runs": attackers.runs, "failures": attackers.failures}))

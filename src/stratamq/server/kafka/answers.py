"""The answers of one connection: they leave in the order of the requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from stratamq.broker.kafka.answer_budget import AnswerBudget
from stratamq.net.connection import Connection
from stratamq.wire.kafka.protocol import Buffer

NOTHING: list[Buffer] = []


class RequestSlot:
    """A request's place in the line. `answer` is None until it is known, [] where none is sent.
    `unpacked_bytes` is what its lists take in memory, `counted_bytes` what of its answer counts in
    the budget. `lags`: another of its kind could overtake
    it. `cancel` ends its work, where that may be ended. `busy_s` is how long it took to begin."""

    __slots__ = (
        "answer",
        "busy_s",
        "cancel",
        "counted_bytes",
        "kind",
        "lags",
        "size_bytes",
        "unpacked_bytes",
    )

    def __init__(self, kind: int, size_bytes: int, unpacked_bytes: int = 0) -> None:
        self.kind, self.size_bytes, self.unpacked_bytes = kind, size_bytes, unpacked_bytes
        self.lags = False
        self.busy_s = 0.0
        self.counted_bytes = 0
        self.answer: list[Buffer] | None = None
        self.cancel: Callable[[], object] | None = None


class Answers:
    """`line` has the slots of the requests that are not answered, or whose answer waits for those
    before it. Bytes count in the budget from `put` until they were sent, unless they are sent at
    once."""

    def __init__(self, connection: Connection, budget: AnswerBudget) -> None:
        self._connection, self._budget = connection, budget
        self.line: deque[RequestSlot] = deque()
        self._unsent = 0

    def put(self, slot: RequestSlot, answer: list[Buffer], *, at_once: bool) -> bool:
        """The answer of a slot in the line; whether it can be sent. `at_once`: it will be, before
        the event loop goes on, if it can."""
        slot.answer = answer
        is_first = slot is self.line[0]
        if not (at_once and is_first):
            slot.counted_bytes = size = sum(map(len, answer))
            self._budget.take(size)
        return is_first

    def send(self) -> None:
        """All that are ready, from the front of the line, in one write."""
        line, ready, counted = self.line, [], 0
        while line and (answer := line[0].answer) is not None:
            counted += line.popleft().counted_bytes
            ready += answer
        if ready:
            self._connection.write(ready)
        self._unsent += counted
        if self._connection.is_clogged:
            uncounted = sum(map(len, ready)) - counted
            self._unsent += uncounted
            self._budget.take(uncounted)
        elif self._unsent:
            self.sent()

    def sent(self) -> None:
        """What was written is on its way."""
        self._budget.give(self._unsent)
        self._unsent = 0

    def close(self) -> list[RequestSlot]:
        """Nothing more is sent. The slots that have no answer yet."""
        self._budget.give(sum(slot.counted_bytes for slot in self.line))
        self.sent()
        unanswered = [slot for slot in self.line if slot.answer is None]
        self.line.clear()
        return unanswered

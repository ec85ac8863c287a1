"""When the join phase of a group ends."""

from __future__ import annotations


class JoinTimer:
    """Ends when everyone has joined or time is up.

    The first rebalance of an empty group is different: more members are probably on their way, so
    it waits a while even when everyone it knows is there, and a while longer when somebody came.
    """

    def __init__(self) -> None:
        self.deadline_ms: int | None = None
        self.grew = False
        self._delay_ms: int | None = None
        self._left_ms = 0

    def start(self, now_ms: int, limit_ms: int, delay_ms: int | None) -> None:
        """`delay_ms` is the wait of a first rebalance, None for any other."""
        self._delay_ms = None if delay_ms is None else min(delay_ms, limit_ms)
        wait_ms = limit_ms if self._delay_ms is None else self._delay_ms
        self._left_ms = limit_ms - wait_ms
        self.deadline_ms = now_ms + wait_ms
        self.grew = False

    def stop(self) -> None:
        self.deadline_ms = None

    def over(self, now_ms: int, *, all_there: bool) -> bool:
        assert self.deadline_ms is not None, "started when the group began to prepare"
        if self._delay_ms is None:
            return all_there or now_ms >= self.deadline_ms
        if now_ms < self.deadline_ms:
            return False
        if self.grew and self._left_ms > 0 and self._delay_ms > 0:
            self._wait_more(now_ms)
            return False
        return True

    def _wait_more(self, now_ms: int) -> None:
        assert self._delay_ms is not None, "only a first rebalance waits for more"
        wait_ms = min(self._delay_ms, self._left_ms)
        self._left_ms -= wait_ms
        self.deadline_ms = now_ms + wait_ms
        self.grew = False

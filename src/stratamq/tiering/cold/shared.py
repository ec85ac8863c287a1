"""Values that are costly to make and used by many: made once, cached within a limit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Shared(Generic[K, V]):
    """For any number of threads. A value is made by the first thread that wants it, the others wait
    for it; a failure is raised in all of them, and is not cached.

    `weight` may change while a value is cached: `trim` computes it again. The value not used for
    longest goes; the one used last stays, however heavy it is. A caller that holds a value may go
    on using it after it went.
    """

    def __init__(self, weight: Callable[[V], int], weight_max: int) -> None:
        self._weight, self._weight_max = weight, weight_max
        self._lock = threading.Lock()
        self._made: OrderedDict[K, V] = OrderedDict()
        self._making: dict[K, Future[V]] = {}

    def get(self, key: K, make: Callable[[], V]) -> V:
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
            future = self._making.get(key)
            mine = future is None
            if future is None:
                future = self._making[key] = Future()
        return self._make(key, make, future) if mine else future.result()

    def peek(self, key: K) -> V | None:
        """What is there, without using it."""
        return self._made.get(key)

    def drop(self, key: K) -> None:
        """The next who asks gets a new one."""
        with self._lock:
            self._made.pop(key, None)
            self._making.pop(key, None)

    def drop_where(self, matches: Callable[[K], bool]) -> None:
        with self._lock:
            for key in [key for key in (*self._made, *self._making) if matches(key)]:
                self._made.pop(key, None)
                self._making.pop(key, None)

    def trim(self) -> None:
        """Let go of what is too much."""
        gone = []  # freed without the lock: it may take a while
        with self._lock:
            total = sum(map(self._weight, self._made.values()))
            while total > self._weight_max and len(self._made) > 1:
                _, value = self._made.popitem(last=False)
                total -= self._weight(value)
                gone.append(value)

    def clear(self) -> None:
        with self._lock:
            self._made.clear()

    @property
    def total(self) -> int:
        with self._lock:
            return sum(map(self._weight, self._made.values()))

    def _make(self, key: K, make: Callable[[], V], future: Future[V]) -> V:
        try:
            value = make()
        except BaseException as error:
            with self._lock:
                if self._making.get(key) is future:
                    del self._making[key]
            future.set_exception(error)
            raise
        with self._lock:
            if self._making.get(key) is future:  # else it was dropped meanwhile
                del self._making[key]
                self._made[key] = value
        future.set_result(value)
        self.trim()
        return value

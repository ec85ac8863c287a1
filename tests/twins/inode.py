"""The bytes of one file on the disk that crashes, and what a stop does to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

PAGE_BYTES = 4096


class Power(StrEnum):
    """What a stop does to what was not synced."""

    KILLED = "process killed: nothing is lost, nothing became durable"
    KEPT = "power cut: all of it happened to be written"
    LOST = "power cut: all of it is lost"
    PREFIX = "power cut: some first writes are there"
    TORN = "power cut: some first writes are there, and a part of the next"
    FLIPPED = "power cut: all of it is there, with flipped bits in it"
    HOLES = "power cut: all of it is there but for some pages, which are zero"


@dataclass(frozen=True, slots=True)
class Change:
    """A write, or a truncation where `data` is None."""

    position: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        if self.data is None:
            if self.position < len(content):
                del content[self.position :]
            else:
                content.extend(bytes(self.position - len(content)))
            return
        if self.position > len(content):
            content.extend(bytes(self.position - len(content)))
        content[self.position : self.position + len(self.data)] = self.data


@dataclass(slots=True)
class Inode:
    """A file's bytes: as readers see them, as they are on the platter, and what lies between."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)
    modified_ms: int = 0

    def change(self, change: Change) -> None:
        change.apply(self.content)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def lose_pending(self) -> None:
        """A failed sync: readers still see the bytes, and no later sync will write them. A new
        length is the journal's business and stays."""
        self.pending = [change for change in self.pending if change.data is None]

    def copy(self) -> Inode:
        pending = list(self.pending)
        return Inode(bytearray(self.content), bytearray(self.durable), pending, self.modified_ms)

    def after(self, power: Power, rng: Random) -> Inode:
        """The file as it is found after a power cut."""
        found = bytearray(self.durable)
        for change in _survivors(self.pending, power, rng):
            change.apply(found)
        if power is Power.FLIPPED:
            _flip(found, _unsynced(self.pending, len(found)), rng)
        elif power is Power.HOLES:
            _punch(found, _unsynced(self.pending, len(found)), rng)
        return Inode(bytearray(found), found)


def _survivors(pending: Sequence[Change], power: Power, rng: Random) -> Iterable[Change]:
    if power is Power.LOST:
        return ()
    if power not in (Power.PREFIX, Power.TORN):
        return pending
    kept = rng.randint(0, len(pending))
    survivors = list(pending[:kept])
    if power is Power.TORN and kept < len(pending):
        torn = pending[kept]
        if torn.data:
            survivors.append(Change(torn.position, torn.data[: rng.randrange(len(torn.data))]))
    return survivors


def _unsynced(pending: Iterable[Change], size: int) -> list[range]:
    """Stretches that were written and not synced, cut to the file's size."""
    written = [
        range(change.position, min(change.position + len(change.data), size))
        for change in pending
        if change.data
    ]
    return [stretch for stretch in written if stretch]


def _flip(content: bytearray, stretches: Sequence[range], rng: Random) -> None:
    for _ in range(rng.randint(1, 3) if stretches else 0):
        content[rng.choice(rng.choice(stretches))] ^= 1 << rng.randrange(8)


def _punch(content: bytearray, stretches: Sequence[range], rng: Random) -> None:
    """Zero some pages. Stretches smaller than a page are common here, so pages are cut smaller
    too: what matters is that later bytes survive while earlier ones do not."""
    for stretch in stretches:
        page = rng.choice((PAGE_BYTES, 512, 64))
        for first in range(stretch.start - stretch.start % page, stretch.stop, page):
            if rng.random() < 0.3:
                lost = range(max(first, stretch.start), min(first + page, stretch.stop))
                content[lost.start : lost.stop] = bytes(len(lost))

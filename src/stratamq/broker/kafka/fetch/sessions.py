"""Fetch sessions (KIP-227): a client says once what it wants, and then only what changes.

Pure: no clock, no I/O. A session holds the partitions of a client, what was last said about each,
and an epoch that must go up by one with each request.

    request                  meaning
    id 0,  epoch -1          no session: everything wanted is in the request
    id 0,  epoch 0           the same, and please open a session
    id N,  epoch 0           close N, then as above
    id N,  epoch -1          close N, no session from now on
    id N,  epoch n > 0       the session's partitions, with these changes

A session belongs to the principal that opened it, and its id is drawn at random: for every other
principal it does not exist.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import field
from typing import NamedTuple

from stratamq.broker.kafka.errors import Refused
from stratamq.meta.topics import TOPIC_NAME_MAX
from stratamq.model.dataclass import dataclass
from stratamq.model.entropy import Entropy
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
)

NO_SESSION = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
EPOCH_MAX = (1 << 31) - 1
SESSION_ID_MAX = (1 << 31) - 1
IDLE_MS_MIN = 120_000
"""A session that was used more recently is not given up for a new one."""


class PartitionKey(NamedTuple):
    """As the client names it: by name, or by id and no name."""

    topic: str
    topic_id: bytes
    partition: int


@dataclass(slots=True)
class SessionPartition:
    """A partition of a session, and what its client was last sent."""

    wanted: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1


@dataclass(slots=True)
class FetchSession:
    session_id: int
    principal: str
    by_id: bool
    partitions: OrderedDict[PartitionKey, SessionPartition] = field(default_factory=OrderedDict)
    epoch: int = INITIAL_EPOCH + 1
    used_ms: int = 0


class FetchPlan(NamedTuple):
    """What to read for a request, in order. `session` is None when every partition is answered."""

    wanted: list[tuple[PartitionKey, FetchPartition]]
    session_id: int
    session: FetchSession | None


class FetchSessions:
    """All sessions of a node, within `sessions_max`; those unused longest go first. They have
    `partitions_max` partitions together, of about half a kilobyte each: none is stored whose name
    is too long for a topic. Clients above the limit go without a session."""

    def __init__(
        self, sessions_max: int, partitions_max: int, entropy: Entropy = os.urandom
    ) -> None:
        self._max, self._partitions_max, self._entropy = sessions_max, partitions_max, entropy
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(self, request: FetchRequest, principal: str, by_id: bool, now_ms: int) -> FetchPlan:
        """Refused, with a code for the response as a whole, when the session is not as the client
        thinks."""
        session = self._sessions.get(request.session_id)
        if session is not None and session.principal != principal:
            session = None
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session is not None:
                self._close(session)
            wanted = _asked(request)
            if request.session_epoch == FINAL_EPOCH:
                return FetchPlan(wanted, NO_SESSION, None)
            return FetchPlan(wanted, self._open(wanted, principal, by_id, now_ms), None)
        if session is None:
            raise Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        _advance(session, request, by_id)
        self._update(session, request)
        session.used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        kept = [(key, one.wanted) for key, one in session.partitions.items()]
        if not kept:
            self._close(session)
            return FetchPlan([], NO_SESSION, None)
        return FetchPlan(kept, session.session_id, session)

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    # -- opening and closing -------------------------------------------------------------------

    def _open(
        self,
        wanted: list[tuple[PartitionKey, FetchPartition]],
        principal: str,
        by_id: bool,
        now_ms: int,
    ) -> int:
        if not wanted or any(len(key.topic) > TOPIC_NAME_MAX for key, _ in wanted):
            return NO_SESSION
        if not self._may_open(len(wanted), now_ms):
            return NO_SESSION
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = int.from_bytes(self._entropy(4)) & SESSION_ID_MAX
        session = FetchSession(session_id, principal, by_id, used_ms=now_ms)
        for key, partition in wanted:
            session.partitions[key] = SessionPartition(partition)
        self._partitions += len(session.partitions)
        self._sessions[session_id] = session
        return session_id

    def _may_open(self, partitions: int, now_ms: int) -> bool:
        """Sessions outlive their connections: those that are idle make way, for each limit."""
        if partitions > self._partitions_max:
            return False
        while (
            len(self._sessions) >= self._max or self._partitions + partitions > self._partitions_max
        ):
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms < IDLE_MS_MIN:
                return False
            self._close(oldest)
        return True

    def _close(self, session: FetchSession) -> None:
        del self._sessions[session.session_id]
        self._partitions -= len(session.partitions)

    # -- going on ------------------------------------------------------------------------------

    def _update(self, session: FetchSession, request: FetchRequest) -> None:
        partitions = session.partitions
        before = len(partitions)
        too_long = False
        for key, wanted in _asked(request):
            if (kept := partitions.get(key)) is not None:
                kept.wanted = wanted
            else:
                partitions[key] = SessionPartition(wanted)
                too_long = too_long or len(key.topic) > TOPIC_NAME_MAX
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                partitions.pop(PartitionKey(topic.topic, topic.topic_id, number), None)
        self._partitions += len(partitions) - before
        if too_long or self._partitions > self._partitions_max:
            self._close(session)
            raise Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def _advance(session: FetchSession, request: FetchRequest, by_id: bool) -> None:
    if request.session_epoch != session.epoch:
        raise Refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    if session.by_id is not by_id:
        raise Refused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1


def changed(session: FetchSession, key: PartitionKey, answer: FetchablePartitionResponse) -> bool:
    """Whether the partition has to be in the answer; what is sent is remembered.

    A partition with records goes to the end of the line, so that the others come first next time.
    """
    kept = session.partitions.get(key)
    if kept is None:
        return True
    changed = bool(
        answer.records
        or answer.error_code
        or answer.high_watermark != kept.high_watermark
        or answer.log_start_offset != kept.log_start_offset
    )
    if answer.records:
        session.partitions.move_to_end(key)
    if answer.error_code:
        kept.high_watermark = -1  # say it all again once the error is gone
    else:
        kept.high_watermark = answer.high_watermark
        kept.log_start_offset = answer.log_start_offset
    return changed


def _asked(request: FetchRequest) -> list[tuple[PartitionKey, FetchPartition]]:
    asked = []
    for topic in request.topics:
        for partition in topic.partitions:
            key = PartitionKey(topic.topic, topic.topic_id, partition.partition)
            asked.append((key, partition))
    return asked


assert len(NO_UUID) == 16, "a key by id differs from every key by name"

"""The order of one connection's requests: which may be under way at the same time, and how their
answers leave.

A client that sends several requests without waiting for answers counts on their order: Kafka
handles a connection's requests one after the other. So does a node, unless no client can see the
difference. Requests begin in the order in which they came; each begins when every request before it
that it may not pass has its answer, and with it all its effects. The request after one that waits
waits as well.

The tables say what passes what, and `UnderWay` counts. Answers leave in the order of the requests
(`Answers`), whichever was ready first.

    kind            may begin while these are unanswered, because
    APPEND          APPEND: the engine stores batches in the order in which it gets them, and one
                    sync serves many. A waiting fetch: that it returns what was appended while it
                    waits is its purpose. FLUSH
    FETCH           other fetches and READ: none of them changes what another one reads. FLUSH
    SESSION_FETCH   the same, but for SESSION_FETCH: what a session was last sent decides what the
                    next answer leaves out
    READ            READ, both fetches: none changes anything. FLUSH
    CHANGE          both fetches: group, offset and transaction state is not part of their answers.
                    FLUSH
    FLUSH           READ, both fetches: it writes what they leave as it is. It may take minutes, and
                    only the APIs of tables see its effect; a backup has none on a node
    ALONE           nothing, and nothing passes it. A Produce that lists much is one of them: its
                    caller's rights are judged in turns, before its batches get in line

JoinGroup and SyncGroup wait for other members and hold up their connection meanwhile, as in Kafka:
clients have a connection of its own for their coordinator.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from stratamq.broker.kafka.answer_budget import AnswerBudget
from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.security.guard import JUDGED_AT_ONCE
from stratamq.net.connection import Connection
from stratamq.wire.kafka.protocol import APIS, Buffer, ProtocolError, Request, RequestHeader
from stratamq.wire.kafka.protocol.messages.fetch import FetchRequest


class RequestKind:
    """Bits, and plain numbers: they are looked at with every request."""

    APPEND: Final = 1
    FETCH: Final = 2
    SESSION_FETCH: Final = 4
    READ: Final = 8
    CHANGE: Final = 16
    FLUSH: Final = 32
    ALONE: Final = 64


FETCHES = RequestKind.FETCH | RequestKind.SESSION_FETCH
ALL = 127

MAY_PASS: Mapping[int, int] = {
    RequestKind.APPEND: RequestKind.APPEND | FETCHES | RequestKind.FLUSH,
    RequestKind.FETCH: FETCHES | RequestKind.READ | RequestKind.FLUSH,
    RequestKind.SESSION_FETCH: RequestKind.FETCH | RequestKind.READ | RequestKind.FLUSH,
    RequestKind.READ: FETCHES | RequestKind.READ | RequestKind.FLUSH,
    RequestKind.CHANGE: FETCHES | RequestKind.FLUSH,
    RequestKind.FLUSH: FETCHES | RequestKind.READ,
    RequestKind.ALONE: 0,
}

NAMES: Mapping[int, tuple[str, ...]] = {
    RequestKind.APPEND: ("Produce",),
    RequestKind.FETCH: ("Fetch",),
    RequestKind.READ: (  # what they read is changed by other requests only
        *("ApiVersions", "DescribeCluster", "DescribeTopicPartitions", "DescribeLogDirs"),
        *("ListOffsets", "OffsetForLeaderEpoch", "OffsetFetch", "FindCoordinator"),
        *("DescribeGroups", "ListGroups", "ConsumerGroupDescribe"),
        *("DescribeConfigs", "ListConfigResources", "ListPartitionReassignments"),
        *("DescribeAcls", "DescribeClientQuotas", "DescribeUserScramCredentials"),
        *("DescribeProducers", "DescribeTransactions", "ListTransactions", "DescribeQuorum"),
        "CheckNode",
    ),
    RequestKind.CHANGE: (
        "Metadata",  # it may create topics
        *("OffsetCommit", "OffsetDelete", "DeleteGroups"),
        *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat"),
        *("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"),
        *("EndTxn", "WriteTxnMarkers"),
    ),
    RequestKind.FLUSH: ("FlushLake", "BackUp"),
    RequestKind.ALONE: (
        # A waiting fetch could fail because of them, or be answered with something else.
        *("CreateTopics", "DeleteTopics", "CreatePartitions"),
        *("DeleteRecords", "DeleteSelectedRecords"),
        *("AlterConfigs", "IncrementalAlterConfigs"),
        *("ElectLeaders", "AlterPartitionReassignments", "AlterReplicaLogDirs"),
        *("UnregisterBroker", "UpdateFeatures"),
        *("CreateAcls", "DeleteAcls", "AlterClientQuotas", "AlterUserScramCredentials"),
        # Who the caller is decides about every request after them.
        *("SaslHandshake", "SaslAuthenticate"),
        # They see what a flush wrote.
        *("DescribeLake", "CommitLake"),
    ),
}

_KEYS = {api.name: api.key for api in APIS.values()}
KINDS = {_KEYS[name]: kind for kind, names in NAMES.items() for name in names}
WAITS_FOR = {kind: ALL & ~passed for kind, passed in MAY_PASS.items()}

NO_SESSION_EPOCH = -1

NOTHING: list[Buffer] = []
"""The answer of a request that gets none."""


def kind_of(request: Request) -> int:
    """An API that the table does not name runs alone. Of the others only Fetch and Produce have two
    kinds."""
    header, body, elements = request
    kind = KINDS.get(header.api_key, RequestKind.ALONE)
    if kind == RequestKind.APPEND and elements > JUDGED_AT_ONCE:
        return RequestKind.ALONE
    if kind == RequestKind.FETCH and isinstance(body, FetchRequest):
        in_session = body.session_id or body.session_epoch != NO_SESSION_EPOCH
        return RequestKind.SESSION_FETCH if in_session else RequestKind.FETCH
    return kind


class UnderWay:
    """The requests of one connection that began and have no answer yet, by kind. One of kind k may
    begin when none of `kinds` is in WAITS_FOR[k]."""

    __slots__ = ("_counts", "kinds")

    def __init__(self) -> None:
        self._counts = dict.fromkeys(MAY_PASS, 0)
        self.kinds = 0

    def began(self, kind: int) -> None:
        self._counts[kind] += 1
        self.kinds |= kind

    def answered(self, kind: int) -> None:
        self._counts[kind] -= 1
        if not self._counts[kind]:
            self.kinds &= ~kind


class RequestSlot:
    """A request's place in the line, or why a frame is none. `answer` is None until it is known, []
    where none is sent. `unpacked_bytes` is what its lists take in memory, `counted_bytes` what of
    its answer counts in the budget. `lags`: another of its kind could overtake it. `cancel` ends
    its work, where that may be ended. `read_at` is when its frame was read, `began_at` when its
    work began (0: not yet), `busy_s` how long that took, and `wait_s` how long it may wait for
    records. `header` and `caller` are there once it has begun."""

    __slots__ = (
        "__weakref__",
        "answer",
        "api_key",
        "began_at",
        "busy_s",
        "caller",
        "cancel",
        "counted_bytes",
        "header",
        "kind",
        "lags",
        "read_at",
        "request",
        "size_bytes",
        "unpacked_bytes",
        "wait_s",
    )

    def __init__(self, api_key: int, size_bytes: int, request: Request | ProtocolError) -> None:
        self.api_key, self.size_bytes = api_key, size_bytes
        self.request: Request | ProtocolError | None = request
        """None once it is begun."""
        self.kind = KINDS.get(api_key, RequestKind.ALONE)
        self.unpacked_bytes = 0
        self.lags = False
        self.header: RequestHeader
        self.caller: Caller
        self.read_at = time.perf_counter()
        self.began_at = self.busy_s = self.wait_s = 0.0
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

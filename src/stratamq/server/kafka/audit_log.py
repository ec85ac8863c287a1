"""The audit log: who changed what, when and from where, a JSON object per line.

Sessions hand over each request that changed something, or that was denied, when its answer is
known. A thread of its own writes, so that neither a slow disk nor a long request holds up a client:

| what happens                             | what the audit log does                              |
|------------------------------------------|------------------------------------------------------|
| the file was renamed or removed          | makes it again, with the next event                  |
| the disk is full, or the file unwritable | drops events, counts them, warns once until it works |
| events come faster than they are written | the same, above `PENDING_MAX`                        |
| a client is denied many times            | ten events in a minute, then their number            |
| a consumer commits without a member      | ten events of a group in a minute, then their number |
| a request is refused for many things     | `REFUSED_MAX` short events, then their number        |
| the node is killed                       | what was answered in its last moments may be missing |
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import stat
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.security.audit import (
    AUDITED,
    DENIED,
    ITEMS_MAX,
    READ_ONLY,
    AuditedApi,
    Change,
    denied,
    makes_something,
    whole,
)
from stratamq.model.errors import InvalidConfig
from stratamq.net.log_limit import LogLimit
from stratamq.server.kafka.ordering import RequestSlot
from stratamq.server.kafka.watch import about, request_fields
from stratamq.wire.kafka.protocol import APIS, ErrorCode, error_of

logger = logging.getLogger(__name__)
events = logging.getLogger("stratamq.audit")

TO_LOG = "log"
NO_LOGIN = ErrorCode.SASL_AUTHENTICATION_FAILED

PENDING_MAX = 10_000
PENDING_BYTES_MAX = 64 << 20
"""Requests that wait to be written, and their bytes. Above: they are dropped, and counted."""

GROUPS_MAX = 100
"""Groups that a `left out` event names. Above: the others are only counted."""

REFUSED_MAX = 100
"""Events of one request for what it did not change. Above: one more says how many there were."""


class SizeLimits(NamedTuple):
    """Characters of a name or value, above which it is cut, and items of a list."""

    chars: int
    items: int


MADE = SizeLimits(1000, ITEMS_MAX)
REFUSED = SizeLimits(200, 10)
"""A client without any rights can cause these."""

CLOSE_S = 5.0
"""How long a stop waits for the disk."""

_AUDITED = {api.key: AUDITED.get(api.name) for api in APIS.values()}
_UNKNOWN = AuditedApi("request", whole("cluster"))
for _api in APIS.values():  # an API that no table names is audited
    if _api.name not in READ_ONLY and _AUDITED[_api.key] is None:
        _AUDITED[_api.key] = _UNKNOWN


class AuditEntry(NamedTuple):
    """A request to be written down, with its answer. Both are left as they are from now on."""

    at_s: float
    client: dict[str, object]
    api: AuditedApi | None
    request: Any
    response: Any
    size_bytes: int = 0
    shows_refused: bool = True
    """Otherwise what was denied is not written down, nor a refused commit: there were too many."""
    shows_others: bool = True
    """Otherwise the rest is not: commits of the same group."""


class AuditLog:
    """`written` and `lost` count events since the start. All calls are made on the event loop."""

    def __init__(self, target: str) -> None:
        """`target` is `log`, or the name of a file; InvalidConfig if it cannot be written."""
        self._file = None if target == TO_LOG else AuditFile(Path(target).expanduser())
        self.written = self.lost = 0
        self._pending: deque[AuditEntry] = deque()
        self._pending_bytes = 0
        self._lost_before = 0
        self._trouble = ""
        self._is_closed = False
        self._refusals = LogLimit(self.left_out)
        self._commits = LogLimit(self._commits_left_out)
        self._groups: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._loop = asyncio.get_running_loop()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._batches: SimpleQueue[list[AuditEntry] | None] = SimpleQueue()
        if self._file is None:
            events.setLevel(logging.INFO)  # whatever log.level is
        # A daemon: a disk that hangs must not keep the process alive.
        threading.Thread(target=self._work, name="audit", daemon=True).start()

    # -- what happened -------------------------------------------------------------------------

    def served(self, slot: RequestSlot, request: Any, response: Any, codes: Iterable[int]) -> None:
        """A request has its answer. `request` may be None for the APIs of data."""
        api, is_denied = _AUDITED[slot.api_key], any(code in DENIED for code in codes)
        if api is not None and not (is_denied or api.applies(request)):
            return
        if response is None or (api is None and not is_denied):
            return
        client, shows_refused, shows_others = about(slot), is_denied, api is not None
        whose = f"{client['principal']} at {client['host']}: {client['api']}"
        if api is not None and api.group is not None:
            shows_refused = any(codes)
            shows_others = makes_something(response) and self._admits(whose, api.group(request))
        if shows_refused:
            shows_refused = self._refusals.admits(whose)
        if shows_refused or shows_others:
            entry = AuditEntry(time.time(), client, api, request, response, slot.size_bytes)
            self._add(entry._replace(shows_refused=shows_refused, shows_others=shows_others))

    def _admits(self, whose: str, group: str) -> bool:
        """Whether one more commit of this client for this group is written down."""
        key = f"{whose} for group {group[: MADE.chars]}"
        counted_as = self._commits.counted_as(key)
        if self._commits.admits(key):
            return True
        if len(groups := self._groups[counted_as]) < GROUPS_MAX:
            groups[group[: MADE.chars]] = None
        return False

    def _commits_left_out(self, whose: str, count: int) -> None:
        details = {"left_out": count, "groups": list(self._groups.pop(whose, ()))}
        self._note({}, "left out", Change("client", whose, 0, details))

    def failed(self, slot: RequestSlot) -> None:
        """A request failed inside the node: what it changed is not known."""
        api = _AUDITED[slot.api_key]
        if api is not None:
            self._note(about(slot), api.action, Change("", "", ErrorCode.UNKNOWN_SERVER_ERROR))

    def created(self, caller: Caller, topic: str) -> None:
        """Metadata created a topic, which its answer does not show."""
        self.note(caller, "topic.create", Change("topic", topic))

    def login_failed(self, host: str, mechanism: str, reason: str, user: str) -> None:
        details = {"mechanism": mechanism, "reason": reason}
        change = Change("user", user, NO_LOGIN, details)
        self._note({**request_fields(), "host": host}, "login", change)

    def left_out(self, whose: str, count: int) -> None:
        """So many events of a client were above its limit."""
        self._note({}, "left out", Change("client", whose, 0, {"left_out": count}))

    def note(self, caller: Caller, action: str, change: Change) -> None:
        """A change that no row of the table can find in a request and its answer."""
        client = {"client": caller.client_id, "principal": caller.principal, "host": caller.host}
        self._note({**client, **request_fields()}, action, change)

    def _note(self, client: dict[str, object], action: str, change: Change) -> None:
        api = AuditedApi(action, lambda request, response: [change])
        self._add(AuditEntry(time.time(), client, api, None, None))

    # -- writing -------------------------------------------------------------------------------

    def _add(self, entry: AuditEntry) -> None:
        if self._is_closed:
            self._warn(0, 1, "the node has stopped")
            return
        too_large = self._pending_bytes + entry.size_bytes > PENDING_BYTES_MAX
        if len(self._pending) >= PENDING_MAX or (too_large and self._pending):
            self._warn(0, 1, "events come faster than they are written")
            return
        self._pending.append(entry)
        self._pending_bytes += entry.size_bytes
        if self._is_idle.is_set():
            self._begin()

    def _begin(self) -> None:
        self._is_idle.clear()
        self._batches.put(list(self._pending))
        self._pending.clear()
        self._pending_bytes = 0

    def _work(self) -> None:
        """The thread: one batch after the other, until it is closed."""
        while (entries := self._batches.get()) is not None:
            try:
                outcome = self._write(entries)
            except Exception as error:  # a fault of ours costs one batch
                logger.exception("audited requests could not be written")
                outcome = 0, len(entries), f"{type(error).__name__}: {error}"
            with suppress(RuntimeError):  # the event loop has ended without waiting for the disk
                self._loop.call_soon_threadsafe(self._wrote, *outcome)

    def _write(self, entries: list[AuditEntry]) -> tuple[int, int, str]:
        """On the thread. How many events were written and lost, and why."""
        lines = [line for entry in entries for line in lines_of(entry)]
        if self._file is None:
            for line in lines:
                events.info("audit", extra={"fields": line})
            return len(lines), 0, ""
        data = [json.dumps(line, allow_nan=False).encode() + b"\n" for line in lines]
        try:
            written = self._file.append(data)
        except OSError as error:
            return 0, len(lines), error.strerror or str(error)
        return written, len(lines) - written, self._file.trouble

    def _wrote(self, written: int, lost: int, reason: str) -> None:
        self._warn(written, lost, reason)
        if self._pending:
            self._begin()
        else:
            self._is_idle.set()

    def _warn(self, written: int, lost: int, reason: str) -> None:
        """Once when events begin to be lost, and once when they are written again."""
        self.written += written
        self.lost += lost
        if lost and not self._trouble:
            self._trouble, self._lost_before = reason, self.lost - lost
            fields = {"reason": reason, "lost": lost}
            logger.warning("the audit log cannot be written", extra={"fields": fields})
        elif written and not lost and self._trouble:
            fields = {"lost": self.lost - self._lost_before}
            self._trouble = ""
            logger.warning("the audit log is written again", extra={"fields": fields})

    async def close(self) -> None:
        """Write what is pending, unless the disk hangs. Called when no request is served."""
        self._refusals.close()
        self._commits.close()
        self._is_closed = True
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._is_idle.wait()
        except TimeoutError:
            logger.warning("the audit log is not whole: its disk does not answer")
        self._batches.put(None)
        if self._file is not None and self._is_idle.is_set():
            self._file.close()


def lines_of(entry: AuditEntry) -> Iterator[dict[str, object]]:
    """The events of a request: one for each thing that it changed, or tried to."""
    is_frequent, refused = entry.api is not None and entry.api.group is not None, 0
    for change in _changes_of(entry):
        is_limited = change.code in DENIED or (is_frequent and change.code != 0)
        if not (entry.shows_refused if is_limited else entry.shows_others):
            continue
        refused += change.code != 0
        if not change.code:
            yield _line_of(entry, change, MADE)
        elif refused <= REFUSED_MAX:
            yield _line_of(entry, change, REFUSED)
    if refused > REFUSED_MAX:
        rest = Change("request", "", 0, {"left_out": refused - REFUSED_MAX})
        yield _line_of(entry, rest, REFUSED) | {"action": "left out"}


def _changes_of(entry: AuditEntry) -> list[Change]:
    changes = denied if entry.api is None else entry.api.changes
    try:
        return list(changes(entry.request, entry.response))
    except Exception:  # a fault of ours must not hide that there was a change
        logger.exception("an audited request could not be described")
        return [Change("", "")]


def _line_of(entry: AuditEntry, change: Change, limits: SizeLimits) -> dict[str, object]:
    at = datetime.fromtimestamp(entry.at_s, UTC).isoformat(timespec="milliseconds")
    line: dict[str, object] = {
        "time": at.replace("+00:00", "Z"),
        "action": entry.api.action if entry.api else "request",
        "resource": change.resource,
        "name": change.name[: limits.chars],
        "result": _result(change.code),
    }
    if change.code:
        line["error"] = error_of(change.code).name
    for name in ("principal", "host", "client", "request", "api"):
        if name in entry.client:
            line[name] = _cut(entry.client[name], MADE)
    if change.details:
        line["details"] = _cut(change.details, limits)
    return line


def _result(code: int) -> str:
    if not code:
        return "ok"
    return "denied" if code in DENIED or code == NO_LOGIN else "failed"


def _cut(value: Any, limits: SizeLimits) -> Any:
    """`value` within the limits, and as JSON has it: without NaN and infinity."""
    if isinstance(value, str):
        return value[: limits.chars]
    if isinstance(value, dict):
        few = islice(value.items(), limits.items)
        cut = {name[: limits.chars]: _cut(one, limits) for name, one in few}
        more = len(value) - limits.items
        return cut | {"more": more} if more > 0 else cut
    if isinstance(value, list):
        return [_cut(one, limits) for one in value[: limits.items]]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class AuditFile:
    """A file that lines are appended to. One that is made here is readable by its owner alone; one
    that is there already keeps its mode and its owner. One thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._is_torn = False
        self.trouble = ""
        """Why the last lines were not written, if they were not."""
        try:
            self._open()
        except OSError as error:
            reason = error.strerror or str(error)
            raise InvalidConfig(f"audit.log: {path} cannot be written ({reason})") from None

    def append(self, lines: list[bytes]) -> int:
        """How many were written whole. OSError where the file cannot be opened."""
        self.trouble = ""
        descriptor = self._open()
        data = b"\n" * self._is_torn + b"".join(lines)
        done, begins = 0, int(self._is_torn)
        try:
            while done < len(data):
                done += os.write(descriptor, memoryview(data)[done:])
        except OSError as error:
            self.trouble = error.strerror or str(error)
        if done:
            self._is_torn = data[done - 1 : done] != b"\n"
        return data.count(b"\n", begins, done)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        """The file of that name: another one, if it was renamed or removed since."""
        if self._descriptor is not None:
            try:
                if os.path.samestat(os.fstat(self._descriptor), self._path.stat()):
                    return self._descriptor
            except FileNotFoundError:
                pass
            self.close()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        try:  # Linux refuses O_CREAT for a file of another user in a folder like /tmp
            descriptor = os.open(self._path, flags)
        except FileNotFoundError:
            descriptor = os.open(self._path, flags | os.O_CREAT, 0o600)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # a pipe could block, or be read
            os.close(descriptor)
            raise OSError(0, "it is not a file")
        self._descriptor, self._is_torn = descriptor, False
        return descriptor

"""Structured logs on standard error.

An event is a short sentence; what it is about goes beside it: `log.info("stopped", extra={"fields":
{"took_ms": 12}})`. As text the fields end the line as name=value; as JSON they are members of the
object. Standard output stays free for what was asked for.

A line that is written while a request is served ends with the fields of that request. Names and
texts of clients may be in any field and in the sentence: control characters are escaped, so that no
client can forge a line, and what is longer than `CHARS_MAX` is cut.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import time
from typing import TextIO

from stratamq.model.config import NodeConfig
from stratamq.server.kafka.watch import request_fields

FIELDS = "fields"

CHARS_MAX = 1000
"""Of a sentence or of a field. Above: the rest is left out, and its length is given."""

INDENT = "    "


def setup(config: NodeConfig, stream: TextIO | None = None) -> None:
    """Send everything that is logged in this process to `stream`, in the configured form."""
    handler = logging.StreamHandler(stream or sys.stderr)
    as_json = config.text("log.format") == "json"
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(config.text("log.level").upper())


class TextFormatter(logging.Formatter):
    """`2026-01-31T09:00:00.123Z info stratamq.node started data=/var/lib/stratamq node=1`"""

    def format(self, record: logging.LogRecord) -> str:
        event = _one_line(_cut(record.getMessage()))
        head = f"{_when(record)} {record.levelname.lower()} {record.name} {event}"
        fields = "".join(f" {name}={_quoted(value)}" for name, value in _fields(record).items())
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        # Only what begins a line without a space is an event, whatever an exception says.
        return head + fields + "".join(f"\n{INDENT}{_one_line(s)}" for s in trace.splitlines())


class JsonFormatter(logging.Formatter):
    """One JSON object per line. A field never hides when, level, logger or event."""

    def format(self, record: logging.LogRecord) -> str:
        line = dict(_fields(record))
        line |= {
            "time": _when(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _cut(record.getMessage()),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _when(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    given = getattr(record, FIELDS, None)
    fields = request_fields() | (given if isinstance(given, dict) else {})
    return {name: _plain(value) for name, value in fields.items()}


def _plain(value: object) -> object:
    """As JSON has it. The parts of an object or a list are cut one by one."""
    if isinstance(value, dict):
        return {_cut(str(name)): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return value if value is None or is_number else _cut(str(value))


def _cut(text: str) -> str:
    if len(text) <= CHARS_MAX:
        return text
    return f"{text[:CHARS_MAX]}... ({len(text)} characters)"


def _one_line(text: str) -> str:
    """Escape line breaks and other control characters, and leave the rest as it is."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _quoted(value: object) -> str:
    text = _cut(json.dumps(value)) if isinstance(value, dict | list) else str(value)
    is_plain = text.isprintable() and not any(c in ' "=\\' or c.isspace() for c in text)
    return text if text and is_plain else json.dumps(text)

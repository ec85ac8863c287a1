"""Structured logs on standard error.

An event is a short sentence; what it is about goes beside it: `log.info("stopped", extra={"fields":
{"took_ms": 12}})`. As text the fields end the line as name=value; as JSON they are members of the
object. Standard output stays free for what was asked for.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TextIO

from stratamq.model.config import NodeConfig

FIELDS = "fields"


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
        head = f"{_when(record)} {record.levelname.lower()} {record.name} {record.getMessage()}"
        fields = "".join(f" {name}={_quoted(value)}" for name, value in _fields(record).items())
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        return head + fields + (f"\n{trace}" if trace else "")


class JsonFormatter(logging.Formatter):
    """One JSON object per line. A field never hides when, level, logger or event."""

    def format(self, record: logging.LogRecord) -> str:
        line = dict(_fields(record))
        line |= {
            "time": _when(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _when(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, FIELDS, None)
    return fields if isinstance(fields, dict) else {}


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(c.isspace() or c in '"=' for c in text) else text

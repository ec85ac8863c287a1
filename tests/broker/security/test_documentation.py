"""docs/security.md says what the table says."""

from __future__ import annotations

from pathlib import Path

from stratamq.broker.kafka.security.apis.table import TABLE
from stratamq.wire.kafka.protocol import APIS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "security.md"


def test_the_page_has_every_row_of_the_table() -> None:
    page = PAGE.read_text()
    for request, entry in TABLE.items():
        row = f"| {request.__name__.removesuffix('Request')} | {entry.needs} |\n"
        assert row in page, row


def test_the_table_has_every_api_that_we_can_read() -> None:
    assert {api.request for api in APIS.values()} <= set(TABLE)

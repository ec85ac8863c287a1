"""The error codes of a response, against a plain walk over all its fields."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stratamq.wire.kafka.protocol import APIS
from stratamq.wire.kafka.protocol.errors import CODE_FIELDS, ERROR_CODES
from stratamq.wire.kafka.protocol.schema import fields_of
from tests.wire.protocol.support import sample

RESPONSES = {api.name: api for api in APIS.values()}


def walked(value: object) -> Iterator[int]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from walked(item)
    elif hasattr(type(value), "__slots__") and not isinstance(value, bytes):
        for field in fields_of(type(value)):
            held = getattr(value, field.name)
            if field.name in CODE_FIELDS:
                yield from [held] if held else []
            else:
                yield from walked(held)


@pytest.mark.parametrize("name", RESPONSES)
def test_all_of_them_are_found(name: str) -> None:
    api = RESPONSES[name]
    response = sample(api.response, api.versions.last)
    found = ERROR_CODES[type(response)](response)
    assert found == list(walked(response))
    assert found, "a sample has something in every field"

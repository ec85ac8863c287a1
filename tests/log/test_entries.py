"""The compiled loop over a batch's records against its plain-Python twin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.log import _entries
from tests.log import entries_oracle

hashes = st.sampled_from([0, 1, 7, (1 << 64) - 1, 1 << 63]) | st.integers(0, (1 << 64) - 1)
deltas = st.integers(0, (1 << 31) - 1)
scans = st.lists(st.tuples(hashes, deltas), max_size=40).map(
    lambda entries: b"".join(entries_oracle.ENTRY.pack(*entry) for entry in entries)
)
prefixes = st.binary(max_size=20)
bases = st.integers(0, (1 << 31) - 1)


@given(prefixes, scans, bases)
def test_key_rows(prefix: bytes, scan: bytes, base: int) -> None:
    assert _entries.key_rows(prefix, scan, base) == entries_oracle.key_rows(prefix, scan, base)


@given(prefixes, scans, bases)
def test_tag_rows(prefix: bytes, scan: bytes, base: int) -> None:
    assert _entries.tag_rows(prefix, scan, base) == entries_oracle.tag_rows(prefix, scan, base)


@given(prefixes, scans, bases, st.binary(min_size=1, max_size=11))
def test_a_part_of_an_entry_is_no_entry(prefix: bytes, scan: bytes, base: int, part: bytes) -> None:
    assert _entries.key_rows(prefix, scan + part, base) == _entries.key_rows(prefix, scan, base)
    assert _entries.tag_rows(prefix, scan + part, base) == _entries.tag_rows(prefix, scan, base)


@pytest.mark.parametrize("function", [_entries.key_rows, _entries.tag_rows])
def test_only_bytes_are_taken(function: object) -> None:
    assert callable(function)
    with pytest.raises(TypeError):
        function(None, b"", 0)
    with pytest.raises(TypeError):
        function(b"", bytearray(12), 0)
    with pytest.raises(OverflowError):
        function(b"", b"", -1)
    with pytest.raises(OverflowError):
        function(b"", b"", 1 << 32)

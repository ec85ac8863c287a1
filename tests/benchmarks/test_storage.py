"""The benchmarks of storage still run: nothing else would notice a disk of theirs that lacks a
method."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.storage.appending import batches_of_16_kib, engine_rate


@pytest.mark.parametrize("flush", ["os", "sync"])
async def test_batches_are_appended_in_groups(tmp_path: Path, flush: str) -> None:
    rate, group = await engine_rate(tmp_path, batches_of_16_kib(), 256, flush)
    assert rate > 0
    assert 1 <= group <= 128

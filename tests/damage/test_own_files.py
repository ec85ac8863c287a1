"""The node's own small files, where a folder or a pipe has their name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import stratamq
from stratamq.model.errors import StorageError
from stratamq.node.identity import sasl_secret


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
@pytest.mark.parametrize("name", ["LOCK", "cluster.id", "meta-revision", "damage.jsonl"])
async def test_a_start_is_refused_by_a_sentence_that_names_it(
    tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    make(folder / name)
    with pytest.raises(StorageError, match=f"{name} is a (folder|pipe).*: move it away"):
        await stratamq.aopen(folder)
    (folder / name).rename(tmp_path / "away")
    async with stratamq.aopen(folder) as node:
        await node.create_topic("t")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_the_same_for_the_secret(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "sasl.secret")
    with pytest.raises(StorageError, match=r"sasl\.secret is a (folder|pipe).*: move it away"):
        sasl_secret(tmp_path)

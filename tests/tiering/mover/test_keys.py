"""Keys: what is made is parsed, what others made is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.model.shard import shard_name
from stratamq.model.types import Offset, TopicId
from stratamq.tiering import keys
from stratamq.tiering.keys import FileKey, ObjectKind
from stratamq.tiering.stores.contract import checked_key

ID = TopicId("0123456789abcdef" * 2)
OWNER = keys.owner_mark("a cluster")
names = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True).filter(
    lambda name: name not in (".", "..")
)
offsets = st.integers(0, (1 << 63) - 1).map(Offset)


@given(name=names, partition=st.integers(0, 10**6), base=offsets, end=offsets)
def test_made_and_parsed(name: str, partition: int, base: Offset, end: Offset) -> None:
    folder, token = keys.topic_folder(name, ID), keys.new_token(OWNER)
    shard = shard_name(ID, partition)
    data = keys.data_key(folder, partition, base, end, token)
    assert keys.parse(checked_key(data)) == FileKey(shard, base, ObjectKind.PARQUET, OWNER)
    raw = keys.log_keys(folder, partition, base, token)
    made = {
        raw.log: ObjectKind.LOG,
        raw.index: ObjectKind.INDEX,
        raw.timeindex: ObjectKind.TIMEINDEX,
    }
    for key, kind in made.items():
        assert keys.parse(checked_key(key)) == FileKey(shard, base, kind, OWNER)
    for other in (keys.manifest_key(folder), f"{keys.metadata_prefix(folder)}v1.json"):
        assert keys.parse(checked_key(other)) is None
        assert keys.topic_id_of(other) == ID


def test_no_token_twice() -> None:
    assert len({keys.new_token(OWNER) for _ in range(1000)}) == 1000


def test_the_mark_is_the_clusters() -> None:
    assert keys.owner_mark("a cluster") == OWNER != keys.owner_mark("another")


GOOD = keys.data_key(f"orders.{ID}", 3, Offset(5), Offset(9), OWNER + "0" * 16)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "orders",
        f"deeper/{GOOD}",
        f"{GOOD}.bak",
        GOOD.replace("partition=3", "partition=03"),
        GOOD.replace("orders.", "orders"),
        GOOD.replace(f"{5:020d}", f"{5:019d}"),
        GOOD.replace("/data/", "/log/"),
        GOOD.replace(OWNER, OWNER.upper().replace(OWNER[0], "X")),
        GOOD.replace(str(ID), "not-an-id"),
        f"orders.{ID}/data/partition=3/part-0000.parquet",
    ],
)
def test_foreign(key: str) -> None:
    assert keys.parse(GOOD) is not None
    assert keys.parse(key) is None

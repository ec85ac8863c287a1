"""A folder that an earlier release has written is opened as it is: nothing is lost, it goes on."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.clients.node import running
from tests.clients.security import librdkafka
from tests.upgrade.contents import (
    DATA,
    EXPECTED,
    FLAGS,
    PARTITIONS,
    PASSWORD,
    TOPICS,
    USER,
    read,
)

ARCHIVES = sorted((Path(__file__).parents[1] / "data").glob("folder-*.tar.xz"))
OPEN = FLAGS[2:]


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def newest(partitions: list[list[Any]]) -> list[dict[str, str]]:
    """By key: what compaction leaves, now or later."""
    return [{key: value for _, key, value, *_ in records} for records in partitions]


def test_there_is_a_folder_of_each_format() -> None:
    assert len(ARCHIVES) >= 2


def test_everything_is_there_and_goes_on(folder: Path) -> None:
    expected = json.loads((folder / EXPECTED).read_text())
    with running(folder / DATA, *OPEN) as node:
        found = read(node.address)
        assert newest(found["records"].pop("compacted")) == newest(
            expected["records"].pop("compacted")
        )
        assert found == expected
        offsets: dict[tuple[str, int], int] = {}
        producer = Producer({"bootstrap.servers": node.address})
        for name in TOPICS:
            for number in range(PARTITIONS):
                producer.produce(
                    name,
                    b"more",
                    partition=number,
                    on_delivery=lambda error, message: offsets.update(
                        {(message.topic(), message.partition()): message.offset()}
                    ),
                )
        assert producer.flush(60) == 0
        last = {
            (name, number): records[-1][0]
            for name, partitions in expected["records"].items()
            for number, records in enumerate(partitions)
        }
        assert [where for where in last if offsets[where] <= last[where]] == []
        assert "damage" not in node.logged()
        assert node.end() == 0


def test_its_users_can_log_in(folder: Path) -> None:
    with running(folder / DATA, *OPEN, "--sasl-enabled-mechanisms", "SCRAM-SHA-256") as node:
        config = librdkafka(node.address, USER) | {"sasl.password": PASSWORD}
        assert "segments" in AdminClient(config).list_topics(timeout=60).topics
        assert node.end() == 0


def test_a_shard_of_a_newer_format_is_left_alone(folder: Path) -> None:
    shards = [path.parent for path in (folder / DATA / "segments").glob("*/shard.json")]
    newer = shards[0] / "shard.json"
    newer.write_text(re.sub('"format": [0-9]+', '"format": 99', newer.read_text()))
    before = {path.name: path.read_bytes() for path in sorted(shards[0].iterdir())}
    with running(folder / DATA, *OPEN) as node:
        assert AdminClient({"bootstrap.servers": node.address}).list_topics(timeout=60).topics
        assert f"shard {shards[0].name} is unavailable" in node.logged()
        assert "a newer release wrote it" in node.logged()
        assert node.end() == 0
    assert {path.name: path.read_bytes() for path in sorted(shards[0].iterdir())} == before

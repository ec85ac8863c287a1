"""What a folder of an earlier release holds, as clients see it: written once, read ever after.

`python -m tests.upgrade.contents ARCHIVE` makes such a folder with the `stratamq` that Python finds
(PYTHONPATH names another release's `src`), reads it back, and packs both into the archive.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.waiting import wait_until

TOPICS: dict[str, dict[str, str]] = {
    "segments": {"segment.bytes": "16384"},
    "compacted": {"cleanup.policy": "compact", "segment.bytes": "16384"},
    "rows": {"storage.type": "EngineRocksDB"},
    "memory": {"storage.type": "EngineMemory"},
    "transactions": {},
    "history": {"segment.bytes": "16384", "local.retention.bytes": "1"},
}
PARTITIONS = 2
GROUP, USER, PASSWORD = "kitchen", "alice", "alice-secret"
EXPECTED = "expected.json"
DATA = "data"
FLAGS = (
    *("--kafka-port", "0", "--tier-interval-ms", "100", "--log-level", "warning"),
    *("--authorizer", "acl", "--super-users", "User:ANONYMOUS"),
)
ANYTHING = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


def fill(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    topics = [NewTopic(name, PARTITIONS, config=config) for name, config in TOPICS.items()]
    for created in admin.create_topics(topics).values():
        created.result(60)
    rule = AclBinding(
        ResourceType.TOPIC,
        "segments",
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([rule])[rule].result(60)
    small = {"enable.idempotence": True, "batch.num.messages": 10}  # several segments of each
    producer = Producer({"bootstrap.servers": address, **small})
    for name in TOPICS:
        if name != "transactions":
            _produce(producer, name, 200)
    assert producer.flush(60) == 0
    transactional = Producer({"bootstrap.servers": address, "transactional.id": "orders"})
    transactional.init_transactions(60)
    for number in range(4):
        transactional.begin_transaction()
        _produce(transactional, "transactions", 10, b"%d-" % number)
        transactional.flush(60)
        if number % 2:
            transactional.abort_transaction(60)
        else:
            transactional.commit_transaction(60)
    config = {"bootstrap.servers": address, "group.id": GROUP, "enable.auto.commit": False}
    consumer = Consumer(config)
    where = [TopicPartition("segments", number, 10 + number) for number in range(PARTITIONS)]
    consumer.commit(offsets=where, asynchronous=False)
    consumer.close()


def _produce(producer: Producer, topic: str, count: int, prefix: bytes = b"") -> None:
    for number in range(count):
        producer.produce(
            topic,
            prefix + b"value %d " % number + b"x" * 300,
            b"key-%d" % (number % 20),
            partition=number % PARTITIONS,
            headers=[("number", b"%d" % number)],
            timestamp=1_700_000_000_000 + number,
        )


def read(address: str) -> dict[str, Any]:
    """Records that are committed, offsets of the group, rules: in the words of JSON."""
    admin = AdminClient({"bootstrap.servers": address})
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    asked = [TopicPartition("segments", number) for number in range(PARTITIONS)]
    offsets = [one.offset for one in consumer.committed(asked, timeout=60)]
    found = {
        name: [_records(consumer, name, number) for number in range(PARTITIONS)]
        for name in TOPICS
        if name != "memory"  # what it held went with the process
    }
    consumer.close()
    rules = sorted(
        f"{one.principal} {one.operation.name} {one.name}"
        for one in admin.describe_acls(ANYTHING).result(60)
    )
    return {"records": found, "offsets": offsets, "rules": rules}


def _records(consumer: Consumer, topic: str, partition: int) -> list[list[Any]]:
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found: list[list[Any]] = []
    while True:
        message = consumer.poll(60)
        assert message is not None, f"{topic} {partition}: nothing comes"
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            return found
        headers = [[name, value.decode()] for name, value in message.headers()]
        found.append(
            [
                message.offset(),
                message.key().decode(),
                message.value().decode(),
                message.timestamp()[1],
                headers,
            ]
        )


def main(archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="stratamq-") as folder:
        data = Path(folder, DATA)
        _add_user(data)
        command = [sys.executable, "-m", "stratamq.cli", "server", "--data-dir", str(data), *FLAGS]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
            try:
                assert node.stdout
                address = node.stdout.readline().split()[1].removeprefix("kafka=")
                fill(address)
                moved = data / "cold"
                wait_until(lambda: len(list(moved.rglob("*.parquet"))) >= PARTITIONS, "history", 60)
                Path(folder, EXPECTED).write_text(json.dumps(read(address)))
            finally:
                node.terminate()
        assert node.returncode == 0
        for log in [*data.rglob("LOG"), *data.rglob("LOG.old*")]:  # RocksDB's own diary
            log.unlink()
        with tarfile.open(archive, "w:xz") as packed:
            for name in (DATA, EXPECTED):
                packed.add(Path(folder, name), name, filter=_anonymous)


def _add_user(data: Path) -> None:
    words = ["user", "add", USER, "--data-dir", str(data)]
    subprocess.run(
        [sys.executable, "-m", "stratamq.cli", *words], input=PASSWORD + "\n", text=True, check=True
    )


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main(Path(sys.argv[1]))

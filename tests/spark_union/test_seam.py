"""A union read while segments are sealed, moved, flushed, merged, replaced and trimmed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import stratamq.spark
from tests.clients.node import Node, running
from tests.spark_union.world import FLAGS, Seen, World, found

pytestmark = [
    pytest.mark.needs("java"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(600),
]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that moves everything it can, at once."""
    with running(tmp_path_factory.mktemp("tiered"), *FLAGS) as node:
        yield node


@pytest.fixture
def world(spark: SparkSession, tiered: Node) -> Iterator[World]:
    made = World(spark, tiered.address, f"seam-{next(_numbers)}", random.Random())
    yield made
    made.close()


def interleave(world: World, seed: int, steps: int) -> int:
    """Random steps; how many files the reads went through."""
    world.choice.seed(seed)
    waiting: list[Seen] = []
    files = 0
    for _ in range(steps):
        what = world.choice.choice(
            ["write", "write", "write", "transact", "flush", "settle", "look", "look", "trim"]
        )
        if what == "look":
            waiting.append(world.look())
        elif what == "trim":
            world.trim(waiting)
        else:
            getattr(world, what)()
        if len(waiting) > 2:
            files += check(waiting.pop(world.choice.randrange(3)), seed)
    return files + sum(check(one, seed) for one in waiting)


def check(read: Seen, seed: int) -> int:
    assert found(read) == read.expected, f"seed {seed}"
    return len(read.cut.files)


def test_nothing_is_missing_and_nothing_twice(world: World) -> None:
    for _ in range(6):
        world.write()
    world.flush()
    assert interleave(world, random.randrange(1 << 30), 25) > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_over_many_interleavings(world: World, seed: int) -> None:
    interleave(world, seed, 120)


def test_a_topic_by_name_and_by_sql(world: World, spark: SparkSession) -> None:
    for _ in range(8):
        world.write()
    world.flush()
    world.write()
    rows = stratamq.spark.topic(spark, world.topic, servers=world.address)
    expected = sorted(row for log in world.logs.values() for row in log)
    assert sorted(rows.select("partition", "offset", "id").collect()) == expected
    stratamq.spark.register(spark, world.topic, servers=world.address)
    view = world.topic.replace("-", "_")
    (total,) = spark.sql(f"SELECT sum(id) AS total FROM {view}").collect()
    assert total.total == sum(row.id for row in expected)
    assert world.look().cut.files, "part of it came from files"


def test_a_topic_that_is_not_there_is_one_sentence(spark: SparkSession, tiered: Node) -> None:
    with pytest.raises(stratamq.errors.TopicNotFound, match="there is no topic 'nothing'"):
        stratamq.spark.topic(spark, "nothing", servers=tiered.address)

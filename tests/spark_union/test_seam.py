"""Union reads and streams while segments are sealed, moved, flushed, merged, compacted, replaced
and trimmed, records are deleted one by one, and jobs make files anew."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

import stratamq.spark
from tests.spark_union.deleting import DeletingNode, deleting_node
from tests.spark_union.world import BUSY, Following, Seen, World

pytestmark = [
    pytest.mark.needs("java"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(600),
]

STEPS = (
    *("write", "write", "write", "write", "transact", "flush", "settle"),
    *("look", "look", "delete", "trim", "work"),
)
FORMATS = ("parquet", "parquet", "both", "log")
STORAGES = ("EngineSegment", "EngineSegment", "EngineRocksDB")

NewWorld = Callable[..., World]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeletingNode]:
    """A node that moves everything it can, at once."""
    with deleting_node(tmp_path_factory.mktemp("tiered"), **BUSY) as node:
        yield node


@pytest.fixture
def new_world(spark: SparkSession, tiered: DeletingNode) -> Iterator[NewWorld]:
    worlds: list[World] = []

    def made(seed: int = 0, **configs: str) -> World:
        world = World(spark, tiered, f"seam-{next(_numbers)}", random.Random(seed))
        world.create(**configs)
        worlds.append(world)
        return world

    yield made
    for world in worlds:
        world.close()


def interleave(world: World, steps: int) -> int:
    """Random steps; how many files the reads went through."""
    world.write()  # else a stream begins by waiting
    stream = Following(world)
    waiting: list[Seen] = []
    files = 0
    try:
        for _ in range(steps):
            what = world.choice.choice(STEPS)
            if what == "look":
                waiting.append(world.look())
            elif what == "trim":
                stream.catch_up()
                world.trim(waiting)
            else:
                getattr(world, what)()
            if len(waiting) > 2:
                files += world.check(waiting.pop(world.choice.randrange(3)))
        world.settle_job()
        files += sum(world.check(one) for one in [*waiting, world.look()])
        stream.catch_up()
        stream.check()
        return files
    finally:
        stream.stop()


def of_seed(new_world: NewWorld, seed: int) -> World:
    some = random.Random(seed)
    configs = {"tier.format": some.choice(FORMATS), "storage.type": some.choice(STORAGES)}
    return new_world(seed, **configs)


def test_nothing_is_missing_and_nothing_twice(new_world: NewWorld) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    world = new_world(seed)
    for _ in range(6):
        world.write()
    world.flush()
    assert interleave(world, 25) > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_over_many_interleavings(new_world: NewWorld, seed: int) -> None:
    interleave(of_seed(new_world, seed), 60)


def test_a_topic_by_name_and_by_sql(new_world: NewWorld, spark: SparkSession) -> None:
    world = new_world()
    for _ in range(8):
        world.write()
    world.flush()
    world.write()
    rows = stratamq.spark.topic(spark, world.topic, servers=world.node.address)
    assert sorted(rows.select("partition", "offset", "id").collect()) == world.live()
    stratamq.spark.register(spark, world.topic, servers=world.node.address)
    view = world.topic.replace("-", "_")
    (total,) = spark.sql(f"SELECT sum(id) AS total FROM {view}").collect()
    assert total.total == sum(row.id for row in world.live())
    assert world.look().cut.files, "part of it came from files"


def test_a_topic_that_is_not_there_is_one_sentence(
    spark: SparkSession, tiered: DeletingNode
) -> None:
    with pytest.raises(stratamq.errors.TopicNotFound, match="there is no topic 'nothing'"):
        stratamq.spark.topic(spark, "nothing", servers=tiered.address)

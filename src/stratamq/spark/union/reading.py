"""The two sides as one DataFrame, and as a view for SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from stratamq.client import BlockingClient, Client, TopicPartition, options_of
from stratamq.model.errors import InvalidInput, TopicRecreated
from stratamq.spark.columns import SCHEMA
from stratamq.spark.session import make_known
from stratamq.spark.union.cold import cold_side
from stratamq.spark.union.columns import MESSAGE_COLUMNS, Typed, typed_columns
from stratamq.spark.union.hot import hot_side
from stratamq.spark.union.snapshot import Since, Snapshot, snapshot_of

Moment = datetime | str | int
SERVERS_CONF = "spark.stratamq.servers"
SERVERS = "localhost:9092"


def topic(
    spark: SparkSession,
    name: str,
    *,
    servers: str | None = None,
    as_of: Moment | None = None,
    since: Moment | None = None,
    typed: Typed = "flat",
    options: Mapping[str, str] | None = None,
    store_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read everything a topic holds at this moment, over all tiers: a plain DataFrame.

    `as_of` leaves out records with a later timestamp (or none): a datetime, its ISO text, or
    milliseconds; without a zone it is UTC. What was deleted since stays deleted. `since` leaves out
    earlier ones: they are not even fetched, as they would be for a filter that Spark applies.

    `typed` says how the fields of declared values come: "flat", each a column; "struct", all in
    `data`; "none". `options` are those of `format("stratamq")`, such as `sasl.username`;
    `store_options` those of Hadoop's file system, such as `fs.s3a.endpoint`. Without `servers` it
    is Spark's setting `spark.stratamq.servers`.
    """
    where = servers or spark.conf.get(SERVERS_CONF, None) or SERVERS
    given = {**(options or {}), "servers": where}
    until_ms = None if as_of is None else timestamp_ms(as_of)
    since_ms = None if since is None else timestamp_ms(since)
    with BlockingClient(options_of(where, given)) as client:
        cut = client.call(_cut(client.asyncio, name, until_ms, since_ms))
    return frame(spark, cut, given, store_options or {}, typed)


async def _cut(client: Client, name: str, as_of_ms: int | None, since_ms: int | None) -> Snapshot:
    lake = await client.describe_lake(name)
    if since_ms is None:
        return snapshot_of(lake, as_of_ms)
    places = [TopicPartition(name, one.partition_index) for one in lake.partitions]
    # Asked after the cut: what has come since is not in it, whatever its time.
    found = await client.list_offsets(dict.fromkeys(places, max(since_ms, 0)))
    now = (await client.describe_topics([name]))[name].topic_id
    if now != bytes(lake.topic_id):  # then these may be offsets of another topic of that name
        raise TopicRecreated(name, bytes(lake.topic_id), now)
    offsets = {place.partition: offset for place, offset in found.items()}
    return snapshot_of(lake, as_of_ms, Since(since_ms, offsets))


def register(spark: SparkSession, *topics: str, **given: Any) -> SparkSession:
    """Make `format("stratamq")` known, and each of `topics` a view for SQL, as `topic` gives it.

    `SELECT * FROM orders` is then the topic at the moment it was registered; register it again to
    see what came since. Of a name, what is no letter, digit or underscore becomes an underscore.
    """
    make_known(spark)
    for name in topics:
        topic(spark, name, **given).createOrReplaceTempView(view_name(name))
    return spark


def view_name(topic_name: str) -> str:
    return re.sub(r"\W", "_", topic_name, flags=re.ASCII)


def frame(
    spark: SparkSession,
    cut: Snapshot,
    options: Mapping[str, str],
    store_options: Mapping[str, str],
    typed: Typed,
) -> DataFrame:
    """The rows of a cut."""
    make_known(spark)
    sides = (
        cold_side(spark, cut, store_options, typed),
        hot_side(spark, cut, options, typed),
    )
    found = [side for side in sides if side is not None]
    return reduce(DataFrame.unionByName, found) if found else _nothing(spark, cut, typed)


def _nothing(spark: SparkSession, cut: Snapshot, typed: Typed) -> DataFrame:
    message = [SCHEMA[name] for name in MESSAGE_COLUMNS]
    values = [t.StructField(one.name, one.kind) for one in typed_columns(cut.columns, typed)]
    return spark.createDataFrame([], t.StructType([*message, *values]))


def timestamp_ms(moment: Moment) -> int:
    """Milliseconds since 1970, of what people write."""
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise InvalidInput(f"{moment!r} is no date and time") from None
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(known.timestamp() * 1000)

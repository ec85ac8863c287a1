"""The two sides as one DataFrame, and as a view for SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from stratamq.client import BlockingClient, options_of
from stratamq.lake.parquet.schema import TYPED_COLUMN
from stratamq.model.errors import InvalidInput
from stratamq.spark.union.cold import cold_side
from stratamq.spark.union.columns import (
    MESSAGE_COLUMNS,
    file_schema,
    flat_names,
)
from stratamq.spark.union.hot import hot_side
from stratamq.spark.union.known import make_known
from stratamq.spark.union.snapshot import Snapshot, snapshot_of

Typed = Literal["flat", "struct", "none"]
SERVERS_CONF = "spark.stratamq.servers"
SERVERS = "localhost:9092"


def topic(
    spark: SparkSession,
    name: str,
    *,
    servers: str | None = None,
    as_of: datetime | str | int | None = None,
    typed: Typed = "flat",
    options: Mapping[str, str] | None = None,
    store_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Everything a topic holds at this moment, over all tiers: a plain DataFrame.

    `as_of` leaves out records with a later timestamp (or none): a datetime, its ISO text, or
    milliseconds; without a zone it is UTC. What was deleted since stays deleted.

    `typed` says how the fields of declared values come: "flat", each a column; "struct", all in
    `data`; "none". `options` are those of `format("stratamq")`, such as `sasl.username`;
    `store_options` those of Hadoop's file system, such as `fs.s3a.endpoint`. Without `servers` it
    is Spark's setting `spark.stratamq.servers`.
    """
    where = servers or spark.conf.get(SERVERS_CONF, None) or SERVERS
    given = {**(options or {}), "servers": where}
    until_ms = None if as_of is None else timestamp_ms(as_of)
    with BlockingClient(options_of(where, given)) as client:
        told = client.call(client.asyncio.describe_lake(name))
    return frame(spark, snapshot_of(told, until_ms), given, store_options or {}, typed)


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
    has_data = typed != "none" and bool(cut.columns)
    sides = (
        cold_side(spark, cut, store_options, typed=has_data),
        hot_side(spark, cut, options, typed=has_data),
    )
    found = [side for side in sides if side is not None]
    rows = reduce(DataFrame.unionByName, found or [_nothing(spark, cut, typed=has_data)])
    return rows.select(*_shown(cut, typed)) if has_data else rows


def _shown(cut: Snapshot, typed: Typed) -> list[Column]:
    message = [f.col(name) for name in MESSAGE_COLUMNS]
    if typed == "struct":
        return [*message, f.col(TYPED_COLUMN)]
    flat = flat_names(cut.columns).items()
    return [*message, *(f.col(TYPED_COLUMN)[name].alias(shown) for name, shown in flat)]


def _nothing(spark: SparkSession, cut: Snapshot, *, typed: bool) -> DataFrame:
    rows = spark.createDataFrame([], file_schema(cut.columns if typed else ()))
    headers = "cast(null as array<struct<key:string,value:binary>>)"
    made = {"topic": f.lit(cut.topic), "headers": f.expr(headers)}
    names = [*MESSAGE_COLUMNS, *([TYPED_COLUMN] if typed else [])]
    return rows.select(*(made.get(name, f.col(name)).alias(name) for name in names))


def timestamp_ms(moment: datetime | str | int) -> int:
    """Milliseconds since 1970, of what people write."""
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise InvalidInput(f"as_of: {moment!r} is no date and time") from None
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(known.timestamp() * 1000)

"""The question: which shop brews more than it sells? Asked in SQL, of topics, over all tiers."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import stratamq.spark

BY_SHOP = """
WITH brewed AS (
    SELECT shop, machine, max(cups) AS cups, avg(celsius) AS celsius
    FROM readings GROUP BY shop, machine, date(timestamp)
), sold AS (
    SELECT shop, count(*) AS orders, sum(amount) AS revenue FROM orders GROUP BY shop
), machines AS (
    SELECT shop, sum(cups) AS cups, avg(celsius) AS celsius FROM brewed GROUP BY shop
)
SELECT shop, seats, cups, orders, cups - orders AS unpaid,
       round(revenue, 2) AS revenue, round(celsius, 1) AS celsius
FROM machines JOIN sold USING (shop) JOIN shops USING (shop)
ORDER BY unpaid DESC
"""

BY_HOUR = """
SELECT hour(timestamp) AS hour, count(*) AS orders, sum(amount) AS revenue
FROM orders GROUP BY 1 ORDER BY 1
"""


class Answer(NamedTuple):
    by_shop: list[dict[str, object]]
    by_hour: list[dict[str, object]]


def ask(spark: SparkSession, servers: str, result: str) -> Answer:
    """The answer, which also goes to the topic `result`."""
    stratamq.spark.register(spark, "readings", "orders", "shops", servers=servers)
    by_shop = spark.sql(BY_SHOP).cache()
    _publish(by_shop, servers, result)
    by_hour = spark.sql(BY_HOUR)
    return Answer(_rows(by_shop), _rows(by_hour))


def _publish(rows: DataFrame, servers: str, topic: str) -> None:
    message = f.to_json(f.struct(*rows.columns)).cast("binary")
    rows.select(f.col("shop").cast("binary").alias("key"), message.alias("value")).write.format(
        "stratamq"
    ).options(servers=servers, topic=topic).mode("append").save()


def _rows(frame: DataFrame) -> list[dict[str, object]]:
    return [row.asDict() for row in frame.collect()]

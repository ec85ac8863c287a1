"""From the topic `orders` to a table, and from the table to the topic `large-orders`."""

# ruff: noqa: F821  (Spark gives these files their session)

from pyspark import pipelines as dp
from pyspark.sql import functions as f

SERVERS = spark.conf.get("spark.stratamq.servers")
ORDER = "id bigint, shop string, drink string, amount double"
LARGE = 4.0


@dp.table(comment="Orders, one row for each.")
def paid_orders():
    messages = (
        spark.readStream.format("stratamq")
        .options(servers=SERVERS, topic="orders", startingOffsets="earliest")
        .load()
    )
    order = f.from_json(f.col("value").cast("string"), ORDER)
    return messages.select("partition", "offset", "timestamp", order.alias("o")).select(
        "partition", "offset", "timestamp", "o.*"
    )


dp.create_sink("large_orders_topic", "stratamq", {"servers": SERVERS, "topic": "large-orders"})


@dp.append_flow(target="large_orders_topic")
def large_orders():
    order = f.to_json(f.struct("id", "shop", "drink", "amount"))
    return (
        spark.readStream.table("paid_orders")
        .where(f.col("amount") >= LARGE)
        .select(f.col("shop").cast("binary").alias("key"), order.cast("binary").alias("value"))
    )

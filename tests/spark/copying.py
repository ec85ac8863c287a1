"""A Spark application that copies a topic to another one, until it has all or is killed.

    python -m tests.spark.copying SERVERS SOURCE TARGET CHECKPOINT [MASTER [POINT FOLDER]]

It prints `running` when the query has begun, and ends when it has copied all that was there then.
With a point it stops there once: see `tests.spark.pausing`.
"""

from __future__ import annotations

import sys

from stratamq.spark import session
from tests.spark.pausing import PausingSource


def main(
    servers: str,
    source: str,
    target: str,
    checkpoint: str,
    master: str = "local[2,8]",
    *pause: str,
) -> None:
    spark = session(
        master,
        spark_ui_showConsoleProgress="false",
        spark_ui_enabled="false",
        spark_driver_memory="600m",
        spark_driver_host="127.0.0.1",
        spark_executor_memory="600m",
    )
    spark.sparkContext.setLogLevel("OFF")
    reader = spark.readStream.format("stratamq").options(
        servers=servers, topic=source, startingOffsets="earliest", maxOffsetsPerTrigger="150"
    )
    # A shuffle, so that rows meet other tasks than those that read them.
    rows = reader.load().select("key", "value").repartition(3)
    writer = rows.writeStream.format("stratamq").option("transactionTimeoutMs", "60000")
    if pause:
        spark.dataSource.register(PausingSource)
        writer = writer.format("pausing").options(point=pause[0], folder=pause[1])
        # Longer than it takes until another is there: a busy machine starts Spark in minutes.
        writer = writer.option("transactionTimeoutMs", "600000")
    query = (
        writer.options(servers=servers, topic=target, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    print("running", flush=True)
    query.awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

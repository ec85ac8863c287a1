"""A Spark application that runs one job on a topic, until it is done or killed.

    python -m tests.spark_union.jobbing JOB SERVERS TOPIC [TARGET]

It prints `running` when it begins, and what was done in the end.
"""

from __future__ import annotations

import sys

from stratamq.spark import jobs, session


def main(job: str, servers: str, topic: str, *target: str) -> None:
    spark = session(
        "local[2,2]",
        spark_ui_showConsoleProgress="false",
        spark_ui_enabled="false",
        spark_driver_memory="600m",
        spark_driver_host="127.0.0.1",
    )
    spark.sparkContext.setLogLevel("OFF")
    print("running", flush=True)
    if target:
        jobs.partitioned_copy(spark, topic, target[0], ["partition"], servers=servers)
    else:
        print(getattr(jobs, job)(spark, topic, servers=servers), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

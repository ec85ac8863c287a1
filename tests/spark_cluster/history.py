"""A job over a topic whose history is in S3. Nobody tells it where: the node does.

    stratamq spark submit --s3 --servers ... history.py [compact]

It ends with a line of JSON: rows before and after (small files became one, if asked for), and what
Spark says it would do.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from stratamq.spark import register, topic
from stratamq.spark.jobs import compact_files
from tests.spark_cluster.application import counted


def main() -> None:
    spark = register(SparkSession.builder.getOrCreate())
    rows = topic(spark, "whole")
    before = counted(rows)
    made = compact_files(spark, "whole").made if "compact" in sys.argv else None
    plan = rows._jdf.queryExecution().toString()  # all of its stages
    told = {
        "before": before,
        "after": counted(topic(spark, "whole")),
        "made": made,
        "plan": plan,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()

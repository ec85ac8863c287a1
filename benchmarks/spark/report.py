"""The page that is kept. What was written by hand below its last heading stays."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pyspark

from benchmarks.kafka.report import BUSY_LOAD, java_version, processor
from benchmarks.spark.filling import RECORD_BYTES
from benchmarks.storage.report import Row, as_markdown, machine

HEADING = "## Where the time goes"
HOW = """\
One topic of {records:,} JSON records of {record_bytes} bytes in four partitions, {cold:.0%} of it
cold (Parquet in a directory store), the rest hot; one node beside Spark (`local[2]`) on the same
cores. Every figure is the median of {rounds} rounds after one that does not count, ours and the
other way in turn; a ratio is taken round by round, with its smallest and largest value: how many
times as fast as `kafka`, or how many times as long as `parquet`. Both ways have to come to the same
answer. Ours is `stratamq.spark.topic(...)`, with the cut taken anew for each query, and nothing
told to it about the query. `kafka` is Spark's own `format("kafka")` on the same node, with
`from_json` where columns are typed; `parquet` is `spark.read.parquet` of the same rows, written by
Spark with its own defaults, fields of the value as columns too.
"""


def page(rows: Sequence[Row], *, records: int, cold: float, rounds: int, load: float) -> str:
    busy = ", so others were using the processors: read the ratios" if load >= BUSY_LOAD else ""
    how = HOW.format(records=records, record_bytes=RECORD_BYTES, cold=cold, rounds=rounds)
    met = [row.met for row in rows if row.met is not None]
    return "\n".join(
        [
            "# Spark",
            "",
            f"`make bench-spark ARGS='--records {records} --rounds {rounds}'`, {date.today()}, "
            f"{machine()} ({processor()}), {java_version()}, Spark {pyspark.__version__}.",
            f"Load average before it began: {load:.1f}{busy}.",
            "",
            how,
            as_markdown(rows),
            "",
            f"{sum(met)} of {len(met)} rows with a goal reach it.",
        ]
    )


def keep(path: Path, text: str) -> None:
    """Write it over the last one, but for what stands below the heading."""
    last = path.read_text() if path.exists() else ""
    _, heading, notes = last.partition(HEADING)
    path.write_text(f"{text}\n" + (f"\n{heading}{notes}" if heading else ""))

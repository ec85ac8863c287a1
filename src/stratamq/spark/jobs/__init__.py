"""Heavy work on a topic's history, as Spark jobs with a task per file that is made.

    plan     which files are made of which: pure
    task     one file, on an executor: the node's batches through the converter that nodes use too,
             and its commit
    running  the tasks of a job
    copying  a topic as a table of its own

Every job may be repeated, and cut off at any point: a file counts from its commit on, and an object
that was never committed goes after a while. One node with little data does the same by itself.
"""

from __future__ import annotations

from stratamq.spark.jobs.copying import partitioned_copy
from stratamq.spark.jobs.running import apply_deletes, compact_files, convert_backlog
from stratamq.spark.jobs.task import Outcome

__all__ = ["Outcome", "apply_deletes", "compact_files", "convert_backlog", "partitioned_copy"]

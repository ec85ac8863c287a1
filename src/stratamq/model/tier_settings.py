"""How history is moved, read back and shown as tables: a node's settings."""

from __future__ import annotations

from stratamq.model.settings import Setting

MIB = 1 << 20
HOUR_MS = 3_600_000

TIERING: tuple[Setting, ...] = (
    Setting(
        name="tier.interval.ms",
        default=30_000,
        minimum=10,
        doc="How often it is looked for segments to move, and for objects nobody needs.",
    ),
    Setting(
        name="tier.workers",
        default=1,
        minimum=1,
        maximum=64,
        doc="Segments converted at once, each by a process of its own with low priority.",
    ),
    Setting(
        name="tier.bytes.per.second",
        default=0,
        minimum=0,
        doc="Upload speed over all segments. Met: uploads wait. 0: no limit.",
    ),
    Setting(
        name="tier.orphan.grace.ms",
        default=24 * HOUR_MS,
        minimum=0,
        doc="How long an object is kept that nothing names any more: a query may still read it.",
    ),
    Setting(
        name="cold.reader.threads",
        default=4,
        minimum=1,
        maximum=256,
        doc="Reads of history at once. Met: the others wait; local reads never do.",
    ),
    Setting(
        name="cold.cache.bytes",
        default=1024 * MIB,
        minimum=0,
        doc="Local disk that may hold copies of blocks of the object store. Met: those not used "
        "for longest go. 0: none. A `file://` store needs none.",
    ),
    Setting(
        name="cold.cache.memory.bytes",
        default=256 * MIB,
        minimum=0,
        doc="Memory for unpacked parts of files that are being read. Met: those not used for "
        "longest go.",
    ),
    Setting(
        name="cold.read.ahead.bytes",
        default=16 * MIB,
        minimum=0,
        doc="How far a reader that goes on is fetched ahead for. 0: not at all.",
    ),
)

TABLES: tuple[Setting, ...] = (
    Setting(
        name="lake.catalog.uri",
        default="",
        doc="The Iceberg catalog: `http(s)://…` for a REST catalog, `none` for no Iceberg tables. "
        "Empty: an SQLite catalog below `data.dir`.",
    ),
    Setting(
        name="lake.catalog.warehouse",
        default="",
        doc="The warehouse a REST catalog is asked for, where it has several.",
    ),
    Setting(
        name="lake.namespace",
        default="stratamq",
        doc="The Iceberg namespace that topics' tables are in.",
    ),
    Setting(
        name="lake.merge.files",
        default=8,
        minimum=2,
        doc="So many small files of one segment become one.",
    ),
)

"""Settings of history: the object store, moving segments there, reading them back, tables."""

from __future__ import annotations

from stratamq.model.settings.setting import Setting

MIB = 1 << 20
HOUR_MS = 3_600_000

STORES: tuple[Setting, ...] = (
    Setting(
        name="store.url",
        default="",
        doc="`file:///folder`, `s3://bucket/prefix` or `hdfs://host/folder`. Empty: the folder "
        "`cold` below `data.dir`.",
    ),
    Setting(
        name="store.s3.endpoint",
        default="",
        doc="Address of a store that speaks S3, such as `http://host:9000`. Empty: AWS.",
    ),
    Setting(
        name="store.s3.region",
        default="",
        doc="Region of the bucket. Empty: what AWS's own settings say, else `us-east-1`.",
    ),
    Setting(
        name="store.s3.path.style",
        default=False,
        doc="Whether the bucket stands in the path and not in the host name; most stores that are "
        "not AWS want it.",
    ),
    Setting(
        name="store.s3.profile",
        default="",
        doc="Profile of AWS's own files whose credentials are used. Empty: the usual chain "
        "(environment, files, container, machine).",
    ),
    Setting(
        name="store.s3.credentials.file",
        default="",
        doc="File with credentials, in the format of AWS's. Empty: `~/.aws/credentials`. Secrets "
        "are never settings themselves.",
    ),
    Setting(
        name="store.hdfs.http.address",
        default="",
        doc="The NameNode's WebHDFS: `host:9870`, or `https://host:9871`; several with commas. "
        "Empty: port 9870 of the host in `store.url`.",
    ),
    Setting(
        name="store.hdfs.user",
        default="",
        doc="User in whose name files are created. Empty: the user of this process.",
    ),
    Setting(
        name="store.uploads.max",
        default=4,
        minimum=1,
        maximum=256,
        doc="Uploads (of objects or parts) and deletions at once. At the limit, the others wait.",
    ),
    Setting(
        name="store.reads.max",
        default=16,
        minimum=1,
        maximum=256,
        doc="Reads at once. At the limit, the others wait.",
    ),
    Setting(
        name="store.connect.timeout.ms",
        default=5_000,
        minimum=1,
        doc="Time to connect to the store. Passed: the attempt has failed.",
    ),
    Setting(
        name="store.timeout.ms",
        default=20_000,
        minimum=1,
        doc="Silence of the store. When it has passed, the attempt has failed and is retried.",
    ),
    Setting(
        name="store.attempts.max",
        default=5,
        minimum=1,
        doc="Attempts of one request. All failed: a retriable error.",
    ),
    Setting(
        name="store.backoff.ms",
        default=100,
        minimum=1,
        doc="Longest wait before the second attempt; each further one may wait twice as long.",
    ),
    Setting(
        name="store.backoff.max.ms",
        default=5_000,
        minimum=1,
        doc="Longest wait before any attempt. The wait itself is drawn at random below it.",
    ),
    Setting(
        name="store.retry.ms.max",
        default=60_000,
        minimum=0,
        doc="No further attempt is begun this long after the first.",
    ),
    Setting(
        name="store.part.bytes",
        default=16 * MIB,
        minimum=5 * MIB,
        maximum=512 * MIB,
        doc="Larger objects go to S3 in parts of about this size. One part per upload is in "
        "memory.",
    ),
)

TIERING: tuple[Setting, ...] = (
    Setting(
        name="tier.interval.ms",
        default=30_000,
        minimum=10,
        doc="How often the node looks for segments to move and for objects that nothing needs.",
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
        doc="Upload speed over all segments. At the limit, uploads wait. 0: no limit.",
    ),
    Setting(
        name="tier.orphan.grace.ms",
        default=24 * HOUR_MS,
        minimum=0,
        doc="How long an object is stored that nothing names any more: a query may still read it.",
    ),
    Setting(
        name="cold.reader.threads",
        default=4,
        minimum=1,
        maximum=256,
        doc="Reads of history at once. At the limit, the others wait; local reads never do.",
    ),
    Setting(
        name="cold.cache.bytes",
        default=1024 * MIB,
        minimum=0,
        doc="Local disk that may hold copies of blocks of the object store. At the limit, those "
        "not used "
        "for longest are removed. 0: none. A `file://` store needs none.",
    ),
    Setting(
        name="cold.cache.memory.bytes",
        default=256 * MIB,
        minimum=0,
        doc="Memory for unpacked parts of files that are being read. At the limit, those not used "
        "for "
        "longest are removed.",
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

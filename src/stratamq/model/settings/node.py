"""The settings of a node, as a table. `docs/configuration.md` is written from it.

Every limit says what happens when it is reached. Names carry their unit last; sizes are bytes,
times are milliseconds.
"""

from __future__ import annotations

from stratamq.model.settings.coordinators import CONSUMER_GROUPS, TRANSACTIONS
from stratamq.model.settings.kafka import KAFKA_FRONT, SECURITY
from stratamq.model.settings.setting import Setting
from stratamq.model.settings.tier import STORES, TABLES, TIERING

MIB = 1 << 20
PORT_MAX = 65_535
_PORT_DOC = "0: any free one. A front that is not built yet is not started."

GROUPS: dict[str, tuple[Setting, ...]] = {
    "Identity and addresses": (
        Setting(
            name="data.dir",
            default="data",
            doc="Folder of everything the node stores. A second node on the same folder is "
            "refused.",
        ),
        Setting(
            name="node.id",
            default=1,
            minimum=0,
            maximum=(1 << 31) - 1,
            doc="The node's number. It must stay the same for the life of the data folder.",
        ),
        Setting(
            name="host",
            default="127.0.0.1",
            doc="Address the fronts listen on. The default is reached from this machine only.",
        ),
        Setting(
            name="kafka.port",
            default=9092,
            minimum=0,
            maximum=PORT_MAX,
            doc=f"Port of the Kafka front. {_PORT_DOC}",
        ),
        Setting(
            name="mqtt.port",
            default=1883,
            minimum=0,
            maximum=PORT_MAX,
            doc=f"Port of the MQTT front. {_PORT_DOC}",
        ),
        Setting(
            name="console.port",
            default=8080,
            minimum=-1,
            maximum=PORT_MAX,
            doc="Port of the console: health and metrics over HTTP (docs/metrics.md). 0: any free "
            "one. -1: no console. Where this is not set and another program uses 8080, any free "
            "one is taken; the ready line has it.",
        ),
        Setting(
            name="console.host",
            default="127.0.0.1",
            doc="Address the console listens on. The default is reached from this machine only: "
            "the console does not authenticate its clients.",
        ),
        Setting(
            name="console.connections.max",
            default=64,
            minimum=1,
            doc="Connections of the console's clients. When the limit is reached, new ones are "
            "closed.",
        ),
        Setting(
            name="metrics.topics.max",
            default=1000,
            minimum=0,
            doc="Topics that have rows of their own in the metrics. The others are summed up in "
            "one row, `(other topics)`.",
        ),
        Setting(
            name="metrics.groups.max",
            default=1000,
            minimum=0,
            doc="Consumer groups whose lag has a row in the metrics. The others have none, and are "
            "counted by `stratamq_group_lag_omitted`.",
        ),
    ),
    "Backup": (
        Setting(
            name="backup.folder",
            default="",
            doc="Folder on the node's machine that backups of the running node are written to, "
            "each into a new folder in it (docs/backup.md). Empty: the node makes none.",
        ),
    ),
    "Kafka front": KAFKA_FRONT,
    "Security and quotas": SECURITY,
    "Writing": (
        Setting(
            name="io.workers",
            default=0,
            minimum=0,
            maximum=16,
            doc="Threads that write; a shard always has the same one. 0: one per core, at most 16. "
            "Another count at the next start is fine: no file depends on it.",
        ),
        Setting(
            name="io.queue.requests.max",
            default=4096,
            minimum=1,
            doc="Requests queued or being written, per worker. Full: producers wait.",
        ),
        Setting(
            name="io.queue.bytes.max",
            default=64 * MIB,
            minimum=1,
            doc="Bytes of those requests, per worker. Full: producers wait; a larger goes alone.",
        ),
        Setting(
            name="io.drain.requests.max",
            default=1024,
            minimum=1,
            doc="Requests that one commit (one fsync) takes. The others wait for the next one.",
        ),
        Setting(
            name="io.drain.bytes.max",
            default=8 * MIB,
            minimum=1,
            doc="Bytes that one commit (one fsync) takes. The others wait for the next one.",
        ),
        Setting(
            name="batch.decompressed.bytes.max",
            default=64 * MIB,
            minimum=1024,
            doc="Size of a batch once decompressed. Above: refused, and nothing is stored.",
        ),
        Setting(
            name="produce.decompressed.bytes.max",
            default=512 * MIB,
            minimum=MIB,
            dynamic=True,
            doc="Size of all compressed batches of one Produce request once decompressed. Batches "
            "after those that fit are refused with MESSAGE_TOO_LARGE.",
        ),
        Setting(
            name="produce.records.max",
            default=1_000_000,
            minimum=1,
            dynamic=True,
            doc="Records of one Produce request, as the headers of its batches count them. Batches "
            "after those that fit are refused with MESSAGE_TOO_LARGE, before they are looked at.",
        ),
        Setting(
            name="produce.batches.max",
            default=10_000,
            minimum=1,
            dynamic=True,
            doc="Batches of one Produce request. Those after them are refused with "
            "POLICY_VIOLATION.",
        ),
    ),
    "Reading and files": (
        Setting(
            name="reader.threads",
            default=4,
            minimum=1,
            maximum=256,
            doc="Threads that read from disk. All busy: readers wait.",
        ),
        Setting(
            name="shards.opened.first.max",
            default=1000,
            minimum=0,
            doc="Shards in segment files that a node opens before it is ready. Where there are "
            "more, it opens those that have something to recover, and the others when they are "
            "first used or, one after the other, in the background.",
        ),
        Setting(
            name="files.open.max",
            default=4096,
            minimum=16,
            doc="Segment files held open. Above: the one unused longest is closed until needed. "
            "Files with writes that are not synced yet (`flush` is `os` or `interval`) are one "
            "half at most. Above: those that wait longest are synced and then closed.",
        ),
        Setting(
            name="files.reserved",
            default=512,
            minimum=16,
            doc="File descriptors that are left to RocksDB, object stores and the rest. Where the "
            "process has too few (`ulimit -Hn`) for these, `files.open.max` and "
            "`kafka.connections.max`, up to a quarter is reserved, and segment files and "
            "connections get half of the rest each. Connections over their share are closed at "
            "once.",
        ),
    ),
    "EngineMemory": (
        Setting(
            name="memory.bytes.max",
            default=1024 * MIB,
            minimum=MIB,
            doc="Bytes of all memory shards together. Full: `memory.full` decides.",
        ),
        Setting(
            name="memory.age.ms.max",
            default=-1,
            minimum=-1,
            doc="Memory segments whose newest record is older than this are evicted; -1: no limit.",
        ),
        Setting(
            name="memory.full",
            default="evict",
            choices=("evict", "refuse"),
            doc="When memory is full: evict the oldest segments, or refuse the write.",
        ),
    ),
    "Metadata": (
        Setting(
            name="meta.topics.max",
            default=100_000,
            minimum=1,
            doc="Topics there may be. At the limit, creating one more is refused.",
        ),
        Setting(
            name="meta.partitions.per.topic.max",
            default=10_000,
            minimum=1,
            doc="Partitions a topic may have. Above: the topic is refused.",
        ),
        Setting(
            name="meta.shards.max",
            default=1_000_000,
            minimum=1,
            doc="Shards there may be. At the limit, creating one more is refused.",
        ),
        Setting(
            name="meta.groups.max",
            default=100_000,
            minimum=1,
            doc="Consumer groups there may be. At the limit, the first commit of one more is "
            "refused.",
        ),
        Setting(
            name="meta.acls.max",
            default=10_000,
            minimum=1,
            doc="Access rules there may be. At the limit, one more is refused.",
        ),
        Setting(
            name="meta.credentials.max",
            default=100_000,
            minimum=1,
            doc="Users' credentials there may be. At the limit, one more is refused.",
        ),
        Setting(
            name="meta.quotas.max",
            default=10_000,
            minimum=1,
            doc="Users and client ids with a quota. At the limit, one more is refused.",
        ),
        Setting(
            name="meta.configs.max",
            default=10_000,
            minimum=1,
            doc="Brokers and groups with configs of their own. When the limit is reached, one more "
            "is refused.",
        ),
        Setting(
            name="meta.files.max",
            default=1_000_000,
            minimum=1,
            doc="Files on object storage. At the limit, segments stay on local disks.",
        ),
        Setting(
            name="meta.pending.commands.max",
            default=10_000,
            minimum=1,
            doc="Metadata changes under way. At the limit, callers wait.",
        ),
        Setting(
            name="meta.watch.updates.max",
            default=10_000,
            minimum=1,
            doc="Updates queued for one watcher. At the limit, they are dropped and it reads a "
            "snapshot.",
        ),
        Setting(
            name="meta.reconcile.interval.ms",
            default=10_000,
            minimum=10,
            doc="How often a quiet cache asks whether it missed a push; it then reads a snapshot.",
        ),
        Setting(
            name="create.topic.timeout.ms",
            default=30_000,
            minimum=1,
            doc="Time to create a topic. When it has passed: TimedOut, and what was created is "
            "removed.",
        ),
        Setting(
            name="create.shard.timeout.ms",
            default=3_000,
            minimum=1,
            doc="Time to create a shard or segment. Passed: the topic's creation fails as a whole.",
        ),
    ),
    "Background work": (
        Setting(
            name="housekeeping.interval.ms",
            default=30_000,
            minimum=10,
            doc="How often retention and compaction look at every shard.",
        ),
        Setting(
            name="compaction.keys.max",
            default=1_000_000,
            minimum=1,
            doc="Keys one compaction remembers, 200 bytes each. Above: further keys stay.",
        ),
        Setting(
            name="producer.id.expiration.ms",
            default=86_400_000,
            minimum=1,
            doc="Producers silent that long are forgotten, unless a transaction is under way.",
        ),
        Setting(
            name="producer.ids.max",
            default=100_000,
            minimum=1,
            doc="Producers that all partitions of a storage type remember, about half a kilobyte "
            "each. When it is reached, the partition that a new one writes to forgets those it "
            "heard of longest ago; their next batch counts as their first.",
        ),
        Setting(
            name="transactions.aborted.per.shard.max",
            default=1_000_000,
            minimum=1,
            doc="Aborted transactions of one shard that readers may still meet, 32 bytes each. "
            "Above: a batch that begins one more is refused with KAFKA_STORAGE_ERROR until "
            "retention has removed some.",
        ),
        Setting(
            name="deletions.per.shard.max",
            default=100_000,
            minimum=1,
            doc="Records of one shard that were deleted by key or offset and are still in its "
            "files, 100 bytes each. Above: a deletion is refused, until compaction or retention "
            "has removed some.",
        ),
        Setting(
            name="checkpoint.interval.ms",
            default=5_000,
            minimum=10,
            doc="How often replicas save high watermarks. After a crash the leader tells the rest.",
        ),
        Setting(
            name="offset.store",
            default="meta",
            choices=("meta", "cache"),
            doc="Group offsets. meta: durable when committed. cache: stored every now and then.",
        ),
        Setting(
            name="offset.cache.max",
            default=1_000_000,
            minimum=1,
            doc="Cached group offsets there may be. At the limit, the commit of one more is "
            "refused.",
        ),
        Setting(
            name="offset.dirty.max",
            default=100_000,
            minimum=1,
            doc="Cached group offsets that are not stored yet. At the limit, commits wait for the "
            "disk.",
        ),
        Setting(
            name="offset.flush.interval.ms",
            default=1_000,
            minimum=10,
            doc="How often cached group offsets are stored. A crash repeats at most that much.",
        ),
        Setting(
            name="shutdown.grace.ms",
            default=30_000,
            minimum=0,
            doc="Time a stop may take. Passed: the process ends at once; the next start recovers.",
        ),
    ),
    "Consumer groups": CONSUMER_GROUPS,
    "Transactions": TRANSACTIONS,
    "Object store": STORES,
    "Tiering": TIERING,
    "Tables": TABLES,
    "Logs": (
        Setting(
            name="log.level",
            default="info",
            choices=("debug", "info", "warning", "error"),
            dynamic=True,
            doc="The least that is logged. Logs go to standard error.",
        ),
        Setting(
            name="log.format",
            default="text",
            choices=("text", "json"),
            doc="text: for people, name=value at the end. json: one object per line.",
        ),
        Setting(
            name="audit.log",
            default="off",
            doc="Where it is written down who changed topics, configs, rules, users and the like, "
            "and which requests were denied (docs/logs.md). off: nowhere. log: with the others. "
            "Else the name of a file, with a JSON object per line. While that cannot be written, "
            "events are lost, counted and warned of, and the node goes on.",
        ),
        Setting(
            name="log.slow.ms",
            default=1000,
            minimum=0,
            dynamic=True,
            doc="A request whose own work takes longer is logged as a warning; not the time that "
            "it waits for its turn, for records or for other members of its group. 0: none is. Of "
            "more than 10 in a minute only the number is logged.",
        ),
        Setting(
            name="otel.endpoint",
            default="",
            doc="URL of a collector for OpenTelemetry, such as http://127.0.0.1:4318: requests are "
            "sent to it as spans, by OTLP over HTTP. Needs `stratamq[otel]`. Empty: off.",
        ),
        Setting(
            name="otel.sample.ratio",
            default="0.01",
            doc="Share of the requests that become spans, from 0 to 1.",
        ),
    ),
}

NODE_SETTINGS: dict[str, Setting] = {
    setting.name: setting for group in GROUPS.values() for setting in group
}

"""Every metric of a node, as a table: the contract with dashboards and alerts.

`docs/metrics.md` is written from it. A name keeps its meaning; what is counted is counted from the
start of the process on.
"""

from __future__ import annotations

from stratamq.console.exposition import Metric, MetricKind

COUNTER, GAUGE, HISTOGRAM = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM

# -- the process -----------------------------------------------------------------------------------

BUILD_INFO = Metric(
    "stratamq_build_info",
    GAUGE,
    "Always 1; the labels say what runs.",
    ("version", "python", "node"),
)
READY = Metric("stratamq_ready", GAUGE, "1 when the node serves clients, as /readyz has it.")
START_TIME = Metric(
    "stratamq_start_time_seconds", GAUGE, "When the process started, in seconds since 1970."
)
CPU = Metric("stratamq_cpu_seconds_total", COUNTER, "Processor time of the process.")
MEMORY = Metric("stratamq_memory_resident_bytes", GAUGE, "Memory of the process that is resident.")
FILES_OPEN = Metric("stratamq_files_open", GAUGE, "File descriptors that the process has open.")
FILES_MAX = Metric(
    "stratamq_files_open_max", GAUGE, "File descriptors that the process may have open."
)
DISK_FREE = Metric(
    "stratamq_disk_free_bytes", GAUGE, "Free space of the file system of the data folder."
)
DISK_SIZE = Metric("stratamq_disk_size_bytes", GAUGE, "Size of the file system of the data folder.")
LOOP_LAG = Metric(
    "stratamq_event_loop_lag_seconds",
    HISTOGRAM,
    "How late a timer went off that is set every second: how long the event loop was held up.",
)
GC_PAUSES = Metric(
    "stratamq_gc_pause_seconds",
    HISTOGRAM,
    "How long each run of the garbage collector stopped the process.",
)

# -- the Kafka front -------------------------------------------------------------------------------

REQUESTS = Metric(
    "stratamq_request_seconds",
    HISTOGRAM,
    "Time from reading a request to its answer, by API. A Fetch that waits for records takes its "
    "time.",
    ("api",),
)
REQUEST_ERRORS = Metric(
    "stratamq_request_errors_total",
    COUNTER,
    "Requests that were refused, by API and Kafka's name of the error; once for each error in an "
    "answer.",
    ("api", "error"),
)
SLOW_REQUESTS = Metric(
    "stratamq_slow_requests_total",
    COUNTER,
    "Requests whose own work took longer than log.slow.ms, by API.",
    ("api",),
)
BYTES_RECEIVED = Metric("stratamq_received_bytes_total", COUNTER, "Bytes that Kafka clients sent.")
BYTES_SENT = Metric("stratamq_sent_bytes_total", COUNTER, "Bytes that were sent to Kafka clients.")
CONNECTIONS = Metric("stratamq_connections", GAUGE, "Open connections of Kafka clients.")
CONNECTIONS_ACCEPTED = Metric(
    "stratamq_connections_accepted_total", COUNTER, "Connections that were accepted."
)
CONNECTIONS_REFUSED = Metric(
    "stratamq_connections_refused_total",
    COUNTER,
    "Connections that were closed because kafka.connections.max or kafka.connections.per.host.max "
    "was reached.",
)
TLS_FAILURES = Metric(
    "stratamq_tls_handshake_failures_total", COUNTER, "TLS handshakes that failed."
)
AUTHENTICATION_FAILURES = Metric(
    "stratamq_authentication_failures_total",
    COUNTER,
    "Logins that failed: wrong user, password, mechanism or certificate, or requests without one.",
)
AUDIT_EVENTS = Metric(
    "stratamq_audit_events_total", COUNTER, "Events that were written to the audit log."
)
AUDIT_LOST = Metric(
    "stratamq_audit_events_lost_total",
    COUNTER,
    "Events of the audit log that were lost, because it could not be written.",
)

# -- topics ----------------------------------------------------------------------------------------

TOPICS = Metric("stratamq_topics", GAUGE, "Topics of the node.")
TOPIC_RECORDS_IN = Metric(
    "stratamq_topic_appended_records_total",
    COUNTER,
    "Records that were appended to the topic, marks of transactions included.",
    ("topic",),
)
TOPIC_BYTES_IN = Metric(
    "stratamq_topic_appended_bytes_total",
    COUNTER,
    "Bytes of the batches that were appended to the topic, compressed as they came.",
    ("topic",),
)
TOPIC_OFFSETS_OUT = Metric(
    "stratamq_topic_fetched_records_total",
    COUNTER,
    "Records that were sent to consumers of the topic, counted by offsets: those that compaction "
    "removed count too.",
    ("topic",),
)
TOPIC_BYTES_OUT = Metric(
    "stratamq_topic_fetched_bytes_total",
    COUNTER,
    "Bytes of the batches that were sent to consumers of the topic.",
    ("topic",),
)
TOPIC_LOG_BYTES = Metric(
    "stratamq_topic_log_bytes",
    GAUGE,
    "Bytes of the topic's segments on this node, in shards that are open; up to 10 seconds old.",
    ("topic",),
)

# -- storage ---------------------------------------------------------------------------------------

SHARDS = Metric(
    "stratamq_shards",
    GAUGE,
    "Shards by storage engine and state: open, closed (opened when it is used) or unavailable "
    "(damaged, missing, or takes no writes).",
    ("engine", "state"),
)
SYNCS = Metric(
    "stratamq_sync_seconds",
    HISTOGRAM,
    "Time of each commit that promises a sync: to write its batches to segment files and to sync "
    "them.",
)
DAMAGE = Metric(
    "stratamq_damage_findings",
    GAUGE,
    "Findings of damage in stored data since the start; `stratamq doctor` lists them.",
)

# -- groups ----------------------------------------------------------------------------------------

GROUPS = Metric(
    "stratamq_groups",
    GAUGE,
    "Consumer groups, by Kafka's name of their state; those that all members have left are up to "
    "10 seconds old.",
    ("state",),
)
GROUP_MEMBERS = Metric(
    "stratamq_group_members",
    GAUGE,
    "Members of consumer groups, by the state of their group.",
    ("state",),
)
GROUP_LAG = Metric(
    "stratamq_group_lag_records",
    GAUGE,
    "Records between what the group committed and the end, over all partitions that it committed "
    "in and that are open; up to 10 seconds old.",
    ("group",),
)
GROUPS_OMITTED = Metric(
    "stratamq_group_lag_omitted",
    GAUGE,
    "Groups that have no row of their lag, because metrics.groups.max was reached.",
)

# -- history ---------------------------------------------------------------------------------------

HISTORY_BACKLOG = Metric(
    "stratamq_history_backlog_bytes",
    GAUGE,
    "Bytes of segments that are due to be moved to object storage.",
)
HISTORY_SEGMENTS = Metric(
    "stratamq_history_backlog_segments",
    GAUGE,
    "Segments that are due to be moved to object storage.",
)
HISTORY_TROUBLED = Metric(
    "stratamq_history_troubled_shards", GAUGE, "Shards whose last move failed and is tried again."
)
HISTORY_MOVED = Metric(
    "stratamq_history_moved_bytes_total",
    COUNTER,
    "Bytes of segments that were moved to object storage.",
)
HISTORY_FAILURES = Metric(
    "stratamq_history_failures_total", COUNTER, "Moves to object storage that failed."
)
HISTORY_SUCCESS = Metric(
    "stratamq_history_last_success_seconds",
    GAUGE,
    "When a segment was last moved to object storage, in seconds since 1970; 0: not since the "
    "start.",
)

METRICS: tuple[Metric, ...] = tuple(
    one for one in list(globals().values()) if isinstance(one, Metric)
)

"""Between the protocols and the storage: topics by name, partitions, groups, and who keeps what.

contract         StorageAdapter: what a place that keeps messages can do
engine_adapter   our own engines as one
drivers          StorageDriverManager: topic -> driver -> shard, the brokers' way in
partitions       how one call is shared out over partitions and put together again
topics, shards   creating, growing, changing, deleting; `repair` finds what a crash cut short
offsets          OffsetManager: durable in the Meta Service, or cached (offset_cache)
housekeeping     retention and compaction in the background
"""

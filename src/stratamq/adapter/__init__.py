"""Between the protocols and the storage: topics by name, partitions, groups, and which storage a
topic is in.

contract         StorageAdapter: what a storage of messages can do
engine_adapter   our own engines as one; `foreign_shard` is the handle of any other
drivers          StorageDriverManager: topic -> driver -> shard, the brokers' way in
partitions       how one call is shared out over partitions and put together again
topics, shards   creating, growing, changing, deleting, and finishing what a crash cut short
offsets          OffsetManager: durable in the Meta Service, or cached (offset_cache)
housekeeping     retention and compaction in the background
"""

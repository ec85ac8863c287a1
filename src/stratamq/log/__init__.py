"""One shard's ordered log: the contract of every store, and the segment files that keep it.

The ladder, each file using the ones below it:

    shard_log   the log of one shard: append, roll, truncate, trim, offload, rewrite
    beside      what is kept beside its segments
    shard_reads reading it: by offset, key, tag and time
    recovery    what is done with the files of an unclean stop
    segment     one run of batches: a `.log` file with its indexes
    reader      from an offset to batches, the short way
    scan        every batch of a file, trusting nothing
    index       indexes of active segments, keys and tags, in the KV store
    sidecar     `.index` and `.timeindex` of sealed segments, Kafka's formats
    deletions, epochs, checkpoint  small files beside the segments
    names       every file name there is
    disk, kv    the doors to the file system and to RocksDB

Synchronous, one writer per shard, readers at any time. Nothing here knows asyncio or threads.
"""

"""One shard's ordered log: the contract of every store, and the segment files that fulfil it.

The ladder, each file using the ones below it:

    shard_log         the log of one shard, put together from the parts below
    segment_writer    adding, cutting, dropping and replacing segments
    segment_list      the segments of a shard, and reading them
    recovery          opening a shard after any stop; with folder_recovery, segment_recovery
    rewriting         replacing a sealed segment by a smaller one
    truncation        cutting a segment
    active_segment    the segment that is written; sealed_segment those that never change
    segment           what all segments share
    reader            from an offset to batches, the short way
    stored            the segments of a folder, read from outside
    scan              every batch of a file, trusting nothing
    index             indexes of active segments, keys and tags, in the key-value store
    sidecar           `.index` and `.timeindex` of sealed segments, Kafka's formats
    file_list, start_offsets, epochs, deletions, snapshots   small files in the shard's folder
    guard             when a shard refuses writes
    names             every file name
    disk, kv          the doors to the file system and to RocksDB

Synchronous, one writer per shard, readers at any time. Nothing here knows asyncio or threads.
"""

"""EngineMemory: shards in memory, and what `memory.persist` saves of them.

What each file holds:

    engine      the engine, and where its shards are stored
    executor    on which thread its work is done
    store       one shard; its segments are in `segment`
    persisted   one shard that is in memory and, when sealed, on disk
    persister   moves sealed segments to disk in the background
    capacity    the memory that all shards share, and what is evicted from it
"""

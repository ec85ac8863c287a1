"""EngineRocksDB: shards as rows of one key-value store.

What each file holds:

    engine   the engine, and how a drain of all shards is one write
    table    which shards there are: their specs and high watermarks
    store    one shard: appending, deleting, truncating, rewriting
    reads    one shard: finding and reading batches
    rows     the keys and values of a shard's rows
"""

"""Small contracts by use, three engines, the I/O pool and the handler.

From the top, each file using the ones below it:

    handler                       leader here? write : pass on
    memory, rocksdb, segment      the engines, a folder each: a storage and an executor put together
    engine, registry, unopened    everything that is promised, written once over any storage
    watermarks                    when the high watermarks of replicas are saved
    engine_shard, handle          one shard, found once and used many times
    housekeeping, compaction, retention      what a shard's writer does besides appending
    tiering                       segments handed out to object storage, and dropped here
    reading                       which threads read, and through which view
    reads, lookups, view          what a reader sees; pure functions over anything that can be read
    tiered                        a shard's part on object storage and the one here, read as one
    pool, executor                on which thread what is done, and in which groups
    group, shard, commit          from bytes that came in to batches with their offsets
    producers                     what a shard knows of idempotent and transactional producers
    storage                       where shards are stored: all in which the engines differ
    contract, limits, layout      the promises, where everything stops growing, names of folders

A write: `engine_shard` checks it on the event loop, the executor queues it, a worker groups what is
queued (`group`), the storage commits the groups, and back on the loop the high watermark moves and
each caller gets its own offsets. A read: `engine` takes a `View` and a reader's thread walks it."""

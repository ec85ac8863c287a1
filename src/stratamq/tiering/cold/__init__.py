"""Reading history: a shard's files on object storage, as the log they were.

From the store up: `Bridge` lets threads wait for the store, `BlockCache` keeps blocks of objects on
the local disk, `Objects` are what files read from, `Readers` keep opened files and their unpacked
parts, and `ShardHistory` is what an engine sees. `ColdReads` puts them together.
"""

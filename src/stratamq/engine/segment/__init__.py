"""EngineSegment: shards as folders of segment files, with one index store for all.

What each file holds:

    engine            the engine
    storage           opens, creates, deletes and commits to shards
    folders           a shard's folder, and the `shard.json` that makes it one
    high_watermarks   the file that replicas' high watermarks are saved in
    disk_threads      threads that sync many files together and free removed ones
"""

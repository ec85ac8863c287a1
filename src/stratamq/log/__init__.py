"""One shard's ordered log: the contract of every store, and the segment files that keep it."""

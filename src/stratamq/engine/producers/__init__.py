"""What a shard knows of idempotent and transactional producers, derived from its log.

What each file holds:

    shard          the shard's producers: checked by its writer, read from the log when it is opened
    table          all producers, and a draft that becomes the table when its batches are stored
    rules          pure: whether a producer's batch or mark may follow what it wrote before
    transactions   open transactions, the last stable offset, aborted transactions
    snapshot       the table as bytes
"""

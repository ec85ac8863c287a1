"""Object stores with one small interface.

`contract.ObjectStore` is all that the rest of StrataMQ sees. `store.Store` keeps its promises once,
for every store: checksums, retries, time-outs, bounded concurrency. What differs between a folder,
S3 and HDFS is a `backend.Backend`: a few blocking calls, made from the store's threads.

    open_store(options) -> Store -> Backend: directory | s3 | hdfs
"""

"""Writing rows to topics: for batches and streams, in epochs that a journal decides."""

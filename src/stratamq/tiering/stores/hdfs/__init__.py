"""`hdfs://`: the backend, and its WebHDFS client."""

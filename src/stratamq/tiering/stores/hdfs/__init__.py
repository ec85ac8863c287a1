"""`hdfs://`: the backend, and the WebHDFS client behind it."""

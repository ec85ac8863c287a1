"""A topic's history as tables: Parquet files that readers of messages and of tables share."""

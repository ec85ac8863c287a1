"""What makes a topic's files a table: its manifest, and its Iceberg table.

Both are derived from what the Meta Service knows, and are rewritten whenever they are lost or old.
"""

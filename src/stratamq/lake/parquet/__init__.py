"""The cold copy of a segment: a Parquet file that is a table, and out of which batches come back.

`writing` makes one of a segment's bytes, `reading` gives it back as a log, `lookups` finds records
in it. Files and bytes only: where they lie, and when they are made, is decided above.
docs/formats/parquet.md has the format. Only those three know pyarrow, which takes long to load: who
moves files about and does not look into them has no need of it.
"""

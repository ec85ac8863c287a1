"""Settings as tables: `setting` is one row, the other files are the tables."""

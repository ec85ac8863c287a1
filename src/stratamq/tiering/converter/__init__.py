"""The converter: a process that turns segments of the log into files for object storage."""

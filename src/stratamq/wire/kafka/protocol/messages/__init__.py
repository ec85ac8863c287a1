"""The messages, one file per family. Field names are those of the Kafka schemas."""

"""The APIs about history and tables, which Kafka does not have."""

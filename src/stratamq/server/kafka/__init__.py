"""Kafka connections: codec, stream and broker put together."""

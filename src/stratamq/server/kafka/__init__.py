"""The Kafka front's door."""

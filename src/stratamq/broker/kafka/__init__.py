"""What Kafka's requests mean here."""

"""What Apache Kafka's clients put on the wire, and what its log files hold."""

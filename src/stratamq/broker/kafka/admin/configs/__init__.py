"""Configs of topics, brokers and groups, as Kafka's tools describe and alter them."""

"""What administrators ask for: topics, partitions, configs, the cluster."""

"""What a node shows over HTTP: whether it is alive, whether it serves, and its metrics."""

"""Speed and size of history: `make bench-tier`."""

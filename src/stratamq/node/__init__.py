"""A node, put together: `core` is its inside, `server` the process with fronts, `embedded` the
Python API."""

"""What groups have read: commit, fetch, forget."""

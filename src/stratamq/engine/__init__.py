"""One contract, three engines, the I/O pool and the handler."""

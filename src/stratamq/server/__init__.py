"""Codec, stream and broker put together: what answers a connection."""

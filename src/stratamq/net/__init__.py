"""The only sockets: listening, connections with back-pressure, TLS."""

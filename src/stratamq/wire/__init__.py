"""Sans-IO codecs: bytes in, values out. No sockets, no clock, no threads."""

"""What a protocol's requests mean. Values in, values out: codecs are below, sockets are above."""

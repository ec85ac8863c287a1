"""How much of the node a client may use."""

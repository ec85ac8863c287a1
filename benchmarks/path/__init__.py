"""How long the way of one request is: Python calls and files, counted and not timed."""

"""For every API: which right it needs, and how its lack is reported. `table` lists all of them."""

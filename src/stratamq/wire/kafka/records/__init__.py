"""Record batch v2: the one unit that is received, stored, replicated, fetched and tiered."""

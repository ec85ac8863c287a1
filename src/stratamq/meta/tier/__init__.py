"""Files on object storage, as the Meta Service stores them, decides on them and caches them."""

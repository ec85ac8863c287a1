"""etcd as the store of a cluster's Meta Service: see `store` and `election`."""

"""StrataMQ: a message queue whose storage is the product."""

"""The classic group protocol: members agree on a leader, the leader assigns."""

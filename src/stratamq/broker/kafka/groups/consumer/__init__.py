"""The consumer protocol of KIP-848: the coordinator assigns, members follow."""

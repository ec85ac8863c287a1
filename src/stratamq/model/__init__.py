"""The domain's words. Imports nothing of ours; everything else may import it."""

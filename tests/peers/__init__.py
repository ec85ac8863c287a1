"""Other people's programs that tests hold ours against."""

"""Speed and size of the storage core, each beside a ceiling measured in the same run."""

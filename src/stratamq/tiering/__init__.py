"""History on object storage: where it lies, what moves it there, how it is read."""

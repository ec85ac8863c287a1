"""The command line. One file per command; `flags` gives each of them all settings as flags."""

"""The command line. One file per command or family of commands.

`flags` gives `server` and the like all settings as flags; `command` runs a command on a node,
which `profiles` finds; `failing` has the exit codes.
"""

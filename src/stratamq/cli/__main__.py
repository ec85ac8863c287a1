"""`python -m stratamq.cli`: the command where no script is installed."""

from __future__ import annotations

from stratamq.cli.entry import main

main()

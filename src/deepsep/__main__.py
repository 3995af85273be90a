"""``python -m deepsep``."""

from __future__ import annotations

from deepsep.cli import app

app(prog_name="deepsep")

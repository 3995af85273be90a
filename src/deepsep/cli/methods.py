"""``deepsep methods``."""

from __future__ import annotations

import shutil
import textwrap

from deepsep.classifiers.catalogue import CATALOGUE
from deepsep.cli.command import command
from deepsep.cli.console import Console


@command()
def methods(out: Console) -> None:
    """List the methods: what each does, assumes and costs."""
    rows = {name: record for name, record in CATALOGUE.items() if record.is_installed}
    width = max(40, min(shutil.get_terminal_size().columns, 110))
    indent = " " * (max(map(len, rows)) + 2)
    lines = []
    for name, row in rows.items():
        lines.append(textwrap.fill(f"{name:<{len(indent)}}{row.what}", width, subsequent_indent=indent))
        for word, text in (("assumes", row.assumes), ("cost", row.cost)):
            lines.append(textwrap.fill(f"{indent}{word}: {text}", width, subsequent_indent=indent + "  "))
    lines.append("\nChoose one with: deepsep fit TABLE --label COLUMN -o MODEL --method NAME")
    out.result(
        "\n".join(lines),
        {"methods": {name: {"what": row.what, "assumes": row.assumes, "cost": row.cost} for name, row in rows.items()}},
    )

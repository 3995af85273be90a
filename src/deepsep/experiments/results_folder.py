"""What an experiment leaves behind: tables, figures, and a page that says what they mean (:mod:`._page`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepsep.experiments import results
from deepsep.experiments.cells import Cell, is_done, read_report
from deepsep.experiments.curves import figure_4, figure_5
from deepsep.experiments.running import Experiment
from deepsep.experiments.study_page import Findings, page

if TYPE_CHECKING:
    import pandas as pd


def find(experiment: Experiment) -> Findings | None:
    """Gather what the cells that are done say; None if there are none."""
    done = [cell for cell in experiment.cells if is_done(cell, experiment.cells_folder)]
    plain = [cell for cell in done if not cell.variant]
    if not plain:
        return None
    every = results.collect(done, experiment.cells_folder)
    main = results.collect(plain, experiment.cells_folder)
    tested = results.claims(main)
    rounds = results.rounds(plain, experiment.cells_folder)
    return Findings(
        results=every,
        table_1=results.table_1(main),
        claims=tested,
        sentences=[results.sentence(tested, claim) for claim in tested["claim"].unique()],
        ablation=results.ablation(every, [cell.variant for cell in done if cell.variant]),
        rounds=rounds,
        seconds=_seconds(plain, experiment.cells_folder),
    )


def _seconds(cells: list[Cell], folder: Path) -> pd.DataFrame:
    import pandas as pd

    rows = [(cell.method, read_report(cell, folder)["seconds"]) for cell in cells]
    frame = pd.DataFrame(rows, columns=["method", "seconds"]).groupby("method", sort=False)["seconds"]
    return frame.agg(fits="count", mean="mean", slowest="max", total="sum").round(2).reset_index()


def write(
    found: Findings,
    experiment: Experiment,
    folder: Path,
    *,
    about: str = "",
    command: str = "",
    published: bool = False,
) -> dict[str, Path]:
    """Write everything to a folder, each file whole or not at all, and return what lies where.

    Parameters
    ----------
    found, experiment
        What was found, by which cells.
    folder : Path
        Of the results.
    about, command : str
        What the table is, and the command that made this; they go into the page.
    published : bool
        Whether to set the paper's averages beside ours.
    """
    table = found.table_1
    files: dict[str, str] = {
        "table.csv": found.results.to_csv(index=False),
        "table1.txt": results.as_text(table),
        "table1.csv": table.reset_index().to_csv(index=False),
        "table1.md": results.as_markdown(table),
        "table1.tex": results.as_latex(table),
        "claims.csv": found.claims.round(4).to_csv(index=False),
        "figure4.svg": figure_4(found.results[found.results["method"].isin(table.index.unique("method"))]),
    }
    if len(found.rounds):
        files["figure5.svg"] = figure_5(found.rounds)
    if len(found.ablation):
        files["ablation.csv"] = found.ablation.to_csv(index=False)
    files["summary.md"] = page(
        found, experiment.plan, experiment.cells, len(experiment.pending), about, command, published
    )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        part = folder / f".{name}.part"
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(folder / name)
    return {name: folder / name for name in files}


def as_json(found: Findings) -> Mapping[str, Any]:
    """Return what a script wants to know."""
    averages = found.table_1.loc["Average"]
    return {
        "averages": {name: dict(row.items()) for name, row in averages.iterrows()},
        "claims": found.claims.to_dict("records"),
        "sentences": found.sentences,
        "ablation": found.ablation.to_dict("records"),
        "seconds": found.seconds.to_dict("records"),
    }

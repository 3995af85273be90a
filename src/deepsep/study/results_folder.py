"""Gather the results of an experiment, and write its tables, figures and page to a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepsep.files.atomic import replace_file
from deepsep.study import results
from deepsep.study.cells import Cell, is_done, read_report
from deepsep.study.curves import figure_4, figure_5
from deepsep.study.running import Experiment
from deepsep.study.study_page import StudyResults, page

if TYPE_CHECKING:
    import pandas as pd


def gather(experiment: Experiment) -> StudyResults | None:
    """Return the results of the finished cells, or None if no cell is finished."""
    done = [cell for cell in experiment.cells if is_done(cell, experiment.cells_folder)]
    main_cells = [cell for cell in done if not cell.variant]
    if not main_cells:
        return None
    everything = results.collect(done, experiment.cells_folder)
    main = results.collect(main_cells, experiment.cells_folder)
    tested = results.claims(main)
    rounds = results.rounds(main_cells, experiment.cells_folder)
    return StudyResults(
        results=everything,
        table_1=results.table_1(main),
        claims=tested,
        sentences=[results.claim_sentence(tested, claim) for claim in tested["claim"].unique()],
        ablation=results.ablation(everything, [cell.variant for cell in done if cell.variant]),
        rounds=rounds,
        seconds=_seconds(main_cells, experiment.cells_folder),
    )


def _seconds(cells: list[Cell], folder: Path) -> pd.DataFrame:
    import pandas as pd

    rows = [(cell.method, read_report(cell, folder)["seconds"]) for cell in cells]
    frame = pd.DataFrame(rows, columns=["method", "seconds"]).groupby("method", sort=False)["seconds"]
    return frame.agg(fits="count", mean="mean", slowest="max", total="sum").round(2).reset_index()


def write(
    study: StudyResults,
    experiment: Experiment,
    folder: Path,
    *,
    about: str = "",
    command: str = "",
    published: bool = False,
) -> dict[str, Path]:
    """Write the results to a folder, each file atomically, and return the paths by file name.

    Parameters
    ----------
    study, experiment
        The results, and the experiment they come from.
    folder : Path
        Folder to write to.
    about, command : str
        Description of the table, and the command that was run; both appear on the page.
    published : bool
        Whether to show the paper's averages next to ours.
    """
    table = study.table_1
    files: dict[str, str] = {
        "table.csv": study.results.to_csv(index=False),
        "table1.txt": results.table_1_text(table),
        "table1.csv": table.reset_index().to_csv(index=False),
        "table1.md": results.as_markdown(table),
        "table1.tex": results.as_latex(table),
        "claims.csv": study.claims.round(4).to_csv(index=False),
        "figure4.svg": figure_4(study.results[study.results["method"].isin(table.index.unique("method"))]),
    }
    if len(study.rounds):
        files["figure5.svg"] = figure_5(study.rounds)
    if len(study.ablation):
        files["ablation.csv"] = study.ablation.to_csv(index=False)
    files["summary.md"] = page(
        study, experiment.plan, experiment.cells, len(experiment.pending), about, command, published
    )
    for name, text in files.items():
        replace_file(folder / name, text.encode())
    return {name: folder / name for name in files}


def as_json(study: StudyResults) -> Mapping[str, Any]:
    """Return the results for ``deepsep experiment --json``."""
    averages = study.table_1.loc["Average"]
    return {
        "averages": {name: dict(row.items()) for name, row in averages.iterrows()},
        "claims": study.claims.to_dict("records"),
        "sentences": study.sentences,
        "ablation": study.ablation.to_dict("records"),
        "seconds": study.seconds.to_dict("records"),
    }

"""What an experiment leaves behind: tables, figures, and a page that says what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepsep.experiments import _results
from deepsep.experiments._cells import Cell, is_done, read_report
from deepsep.experiments._figures import figure_4, figure_5
from deepsep.experiments._run import Experiment

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Findings:
    """What the finished cells of an experiment say.

    Attributes
    ----------
    results : DataFrame
        One row a model, size and shuffle; what ``table.csv`` holds.
    table_1 : DataFrame
        Accuracies in %, a block a shuffle, averages last.
    claims : DataFrame
        Paired t-tests over the shuffles.
    sentences : list of str
        What the tests support.
    ablation : DataFrame
        What is lost without each part of DeepSep; empty without an ablation.
    rounds : DataFrame
        Accuracy in every round of DeepSep.
    seconds : DataFrame
        Time per fit: mean and slowest, by method.
    """

    results: pd.DataFrame
    table_1: pd.DataFrame
    claims: pd.DataFrame
    sentences: list[str]
    ablation: pd.DataFrame
    rounds: pd.DataFrame
    seconds: pd.DataFrame


def find(experiment: Experiment) -> Findings | None:
    """Gather what the cells that are done say; None if there are none."""
    done = [cell for cell in experiment.cells if is_done(cell, experiment.cells_folder)]
    plain = [cell for cell in done if not cell.variant]
    if not plain:
        return None
    results = _results.collect(done, experiment.cells_folder)
    main = _results.collect(plain, experiment.cells_folder)
    tested = _results.claims(main)
    rounds = _results.rounds(plain, experiment.cells_folder)
    return Findings(
        results=results,
        table_1=_results.table_1(main),
        claims=tested,
        sentences=[_results.sentence(tested, claim) for claim in tested["claim"].unique()],
        ablation=_results.ablation(results, [cell.variant for cell in done if cell.variant]),
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
        "table1.txt": _results.as_text(table),
        "table1.csv": table.reset_index().to_csv(index=False),
        "table1.md": _results.as_markdown(table),
        "table1.tex": _results.as_latex(table),
        "claims.csv": found.claims.round(4).to_csv(index=False),
        "figure4.svg": figure_4(found.results[found.results["method"].isin(table.index.unique("method"))]),
    }
    if len(found.rounds):
        files["figure5.svg"] = figure_5(found.rounds)
    if len(found.ablation):
        files["ablation.csv"] = found.ablation.to_csv(index=False)
    files["summary.md"] = page(found, experiment, about=about, command=command, published=published)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        part = folder / f".{name}.part"
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(folder / name)
    return {name: folder / name for name in files}


def page(found: Findings, experiment: Experiment, *, about: str, command: str, published: bool) -> str:
    """Return the page: what was done, what came out, what the tests support, and what to bear in mind."""
    what, cells = experiment.plan, experiment.cells
    name, trials, shuffles = cells[0].table, cells[0].trials, len({cell.shuffle for cell in cells})
    left = len(experiment.pending)
    lines = [f"# The experiment on {name}", ""]
    lines += [about.strip(), ""] if about else []
    lines += ["Made with:", "", f"    {command}", ""] if command else []
    lines += [
        f"{shuffles} shuffles; {what.validation} validation rows; {what.test_per_class} test rows of each class, which "
        f"are also the unlabelled rows. {_tuning(trials)}",
        "",
        *(f"- {notice}" for notice in what.notices),
    ]
    if left:
        lines += ["", f"**{left} of {len(cells)} cells are missing.** The same command continues."]
    averages = found.table_1.loc[["Average"]]
    lines += [
        "",
        "## Average accuracy, %",
        "",
        _results.as_markdown(averages).strip(),
        "",
        "All shuffles: table1.md.",
        "",
    ]
    if published:
        lines += ["The paper's averages, on its own data, which is not public:", "", published_table(found), ""]
    lines += ["![Accuracy against labels](figure4.svg)", ""]
    lines += ["![Accuracy per round](figure5.svg)", ""] if len(found.rounds) else []
    lines += ["## What the differences support", "", *(f"- {sentence}" for sentence in found.sentences)]
    lines += (
        ["", claims_table(found.claims), ""] if len(found.claims) else ["Nothing: no pair of models to compare.", ""]
    )
    if len(found.ablation):
        lines += ["## Ablation", "", ablation_table(found.ablation), ""]
    lines += ["## Time", "", _markdown(found.seconds, "Seconds of a fit, with the encoding of the table."), ""]
    return "\n".join([*lines, "## To bear in mind", "", *(f"- {text}" for text in caveats(what.validation)), ""])


def caveats(validation: int) -> list[str]:
    """Return what every reader of such a table should know."""
    return [
        f"Tuning uses {validation} further labels: at 35 labels a tuned method has seen {35 + validation}.",
        "Labels and test rows are both balanced over the classes. The balancing target of the TSVMs is therefore "
        "exactly right here; in a population whose shares are not those of the labels it would not be.",
        "The shuffles are drawn from one table and share rows, so that the p-values are optimistic. With five shuffles "
        "a rank test could not go below .0625 at all.",
    ]


def published_table(found: Findings) -> str:
    """Return the paper's averages for the sizes at hand, in Markdown."""
    averages = _results.published_averages(found.table_1.columns.tolist())
    return _markdown(averages.rename_axis("model").reset_index(), "")


def claims_table(claims: pd.DataFrame) -> str:
    """Return the tests in Markdown."""
    shown = claims.assign(difference=claims["difference"].map("{:+.2f}".format))
    for column, form in (("sd", "{:.2f}"), ("effect", "{:.2f}"), ("p", "{:.4f}"), ("p_holm", "{:.4f}")):
        shown[column] = claims[column].map(lambda value, form=form: "–" if value != value else form.format(value))
    return _markdown(shown, "Differences in points; effect is the mean divided by the standard deviation (Cohen's d).")


def ablation_table(ablation: pd.DataFrame) -> str:
    """Return the ablation in Markdown."""
    shown = ablation.assign(
        accuracy=ablation["accuracy"].map("{:.2f}".format), difference=ablation["difference"].map("{:+.2f}".format)
    )
    return _markdown(shown, "Accuracy in %, and difference to the published settings in points, over the shuffles.")


def _tuning(trials: int) -> str:
    if trials:
        return f"Every method is tuned with {trials} fits on the validation rows."
    return "Nothing is tuned: the validation rows go to no method."


def _markdown(frame: pd.DataFrame, note: str) -> str:
    names = [str(name) for name in frame.columns]
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(map(_shown, row))} |" for row in frame.itertuples(index=False)]
    return "\n".join([*lines, *(["", note] if note else [])])


def _shown(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


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

"""The results of an experiment: its page in Markdown, and the folder of its tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from deepsep.files.atomic import replace_file
from deepsep.study import results
from deepsep.study.cells import Cell, is_done, read_report
from deepsep.study.curves import figure_4, figure_5
from deepsep.study.results import as_markdown, published_averages
from deepsep.study.running import Experiment
from deepsep.study.study_models import in_order


@dataclass(frozen=True)
class StudyResults:
    """The results of the finished cells of an experiment."""

    results: pd.DataFrame  # one row per model, size and shuffle; the content of ``table.csv``
    table_1: pd.DataFrame  # accuracies in %, one block per shuffle, averages last
    claims: pd.DataFrame  # paired t-tests over the shuffles
    sentences: list[str]  # the tests in words
    ablation: pd.DataFrame  # accuracy of DeepSep's variants; empty without an ablation
    rounds: pd.DataFrame  # accuracy after every round of DeepSep
    seconds: pd.DataFrame  # seconds per fit by method: mean, slowest and total


def page(study: StudyResults, experiment: Experiment, about: str, command: str, published: bool) -> str:
    """Return the page in Markdown; the other arguments are those of :func:`write`."""
    plan, cells, missing = experiment.plan, experiment.cells, len(experiment.pending)
    shuffles, trials = len({cell.shuffle for cell in cells}), cells[0].trials
    tuning = f"Every method is tuned with {trials} fits on the validation rows."
    if not trials:
        tuning = "Nothing is tuned; the validation rows are not used."
    shared = float(study.results["shared_test_rows"].mean())
    models = study.results[study.results["method"].isin(study.table_1.index.unique("method"))]
    lines = [f"# The experiment on {cells[0].table}", ""]
    lines += [about.strip(), ""] if about else []
    lines += ["Made with:", "", f"    {command}", ""] if command else []
    lines += [
        f"{shuffles} shuffles; {plan.validation} validation rows; {plan.test_per_class} test rows per class, which "
        f"are also the unlabelled rows. {tuning}",
        "",
        *(f"- {notice}" for notice in plan.notices),
    ]
    if missing:
        lines += ["", f"**{missing} of {len(cells)} fits are not finished.** Run the same command again to continue."]
    lines += ["", "## Accuracy", "", spread_table(models, "accuracy"), ""]
    lines += ["In %, mean ± standard deviation over the shuffles.", ""]
    if published:
        lines += ["The paper's averages, on its own data, which is not public:", "", published_table(study), ""]
    lines += ["![Accuracy against labels](figure4.svg)", ""]
    lines += ["![Accuracy per round](figure5.svg)", ""] if len(study.rounds) else []
    lines += ["## Differences between models", "", *(f"- {sentence}" for sentence in study.sentences), ""]
    lines += [claims_table(study.claims) if len(study.claims) else "There is no pair of models to compare.", ""]
    if len(study.ablation):
        lines += ["## Ablation", "", ablation_table(study.ablation), ""]
    lines += ["## Calibration error", "", spread_table(models, "ece"), ""]
    lines += ["In %: the average gap between the probability of the predicted class and how often it is right.", ""]
    lines += ["## Time", "", _markdown(study.seconds, "Seconds per fit, without the encoding of the table."), ""]
    lines += ["## Limits", "", *(f"- {text}" for text in caveats(plan.validation, trials, shared)), ""]
    return "\n".join([*lines, "## Every shuffle", "", as_markdown(study.table_1)])


def caveats(validation: int, trials: int, shared: float) -> list[str]:
    """Return the limits that apply to every such study; two shuffles share this part of their test rows."""
    further = f"{validation} further labels: at 35 labels a tuned method has seen {35 + validation}."
    return [
        f"Tuning uses {further}" if trials else f"Nothing is tuned here. Tuning would use {further}",
        "Labels and test rows are both balanced over the classes. The balancing target of the TSVMs is therefore "
        "exactly right here; in a population whose class shares differ from those of the labels it would not be.",
        f"The shuffles are drawn from one table: two of them share about {100 * shared:.0f} % of their test rows, "
        "so the p-values of the paired t-test are optimistic. The corrected resampled t-test allows for this. With "
        "five shuffles a rank test could not go below .0625 at all.",
    ]


def spread_table(results: pd.DataFrame, column: str) -> str:
    """Return the mean of a column and its standard deviation over the shuffles: a row per model, a column per size."""
    both = results.groupby(["method", "labels"])[column].agg(["mean", "std"]) * 100

    def cell(row: Any) -> str:
        if row["mean"] != row["mean"]:
            return "–"
        return f"{row['mean']:.2f}" + ("" if row["std"] != row["std"] else f" ± {row['std']:.1f}")

    return _grid("model", both.loc[in_order(both.index.unique(0))], cell)


def published_table(study: StudyResults) -> str:
    """Return the paper's averages for the sizes at hand, in Markdown."""
    averages = published_averages(study.table_1.columns.tolist())
    return _markdown(averages.rename_axis("model").reset_index(), "")


def claims_table(claims: pd.DataFrame) -> str:
    """Return the tests in Markdown, one row per claim, one column per size.

    Without the corrected resampled t-test, which needs the share of test rows that shuffles have in common, there is
    one p-value in the brackets.
    """

    def cell(row: Any) -> str:
        if row["p_holm"] != row["p_holm"]:
            return f"{row['difference']:+.2f}"
        mark = "**" if row["p_holm"] < 0.05 else ""
        ps = [f"{row[p]:.3f}" for p in ("p_holm", "p_corrected_holm") if row[p] == row[p]]
        return f"{mark}{row['difference']:+.2f}{mark} ({', '.join(ps)})"

    grid = _grid("", claims.set_index(["claim", "labels"]), cell)
    return (
        f"{grid}\n\nDifference in points; in brackets Holm's p over the sizes by the paired t-test, bold where it is "
        "below .05, and by the corrected resampled t-test (Nadeau and Bengio 2003), which allows for the test rows "
        "that the shuffles share. `claims.csv` has effect sizes and p-values without Holm's correction."
    )


def ablation_table(ablation: pd.DataFrame) -> str:
    """Return the ablation in Markdown, one row per variant, one column per size."""

    def cell(row: Any) -> str:
        no_spread = row["sd"] != row["sd"] or not (row["sd"] or row["difference"])
        return f"{row['accuracy']:.2f}" + ("" if no_spread else f" ({row['difference']:+.2f} ± {row['sd']:.2f})")

    grid = _grid("DeepSep", ablation.set_index(["what", "labels"]), cell)
    return (
        f"{grid}\n\nAccuracy in % at each number of labels; in brackets the difference from the published settings in "
        "points, with its standard deviation over the shuffles."
    )


def _grid(corner: str, rows: pd.DataFrame, cell: Callable[[Any], str]) -> str:
    """Return rows with two index levels in Markdown: the first level goes down, the second across."""
    sizes = sorted(rows.index.unique(1))
    lines = [f"| {corner} | {' | '.join(map(str, sizes))} |", f"|{'---|' * (len(sizes) + 1)}"]
    for name in rows.index.unique(0):
        cells = [cell(rows.loc[(name, size)]) if (name, size) in rows.index else "–" for size in sizes]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _markdown(frame: pd.DataFrame, note: str) -> str:
    names = [str(name) for name in frame.columns]
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    for row in frame.itertuples(index=False):
        cells = [f"{value:.2f}" if isinstance(value, float) else str(value) for value in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, *(["", note] if note else [])])


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
    rows = [(cell.method, read_report(cell, folder)["seconds"]) for cell in cells]
    frame = pd.DataFrame(rows, columns=["method", "seconds"]).groupby("method", sort=False)["seconds"]
    return frame.agg(fits="count", mean="mean", slowest="max", total="sum").round(2).reset_index()


def write(
    study: StudyResults,
    experiment: Experiment,
    folder: Path,
    *,
    about: str = "",  # description of the table, and the command that was run, for the page
    command: str = "",
    published: bool = False,  # whether to show the paper's averages next to ours
) -> dict[str, Path]:
    """Write the results to a folder, each file completely or not at all, and return the paths by file name."""
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
    files["summary.md"] = page(study, experiment, about, command, published)
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

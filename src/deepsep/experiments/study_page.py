"""The page of an experiment: what was done, what came out, what the tests support, and what to bear in mind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deepsep.experiments.cells import Cell
from deepsep.experiments.results import as_markdown, published_averages
from deepsep.experiments.splits import Plan
from deepsep.experiments.study_models import in_order

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


def page(
    found: Findings, plan: Plan, cells: Sequence[Cell], missing: int, about: str, command: str, published: bool
) -> str:
    """Return the page in Markdown.

    Parameters
    ----------
    found : Findings
        What came out.
    plan, cells, missing
        What was to be done, and how many cells are not.
    about, command : str
        What the table is, and the command that made this; either may be empty.
    published : bool
        Whether to set the paper's averages beside ours.
    """
    shuffles, trials = len({cell.shuffle for cell in cells}), cells[0].trials
    models = found.results[found.results["method"].isin(found.table_1.index.unique("method"))]
    lines = [f"# The experiment on {cells[0].table}", ""]
    lines += [about.strip(), ""] if about else []
    lines += ["Made with:", "", f"    {command}", ""] if command else []
    lines += [
        f"{shuffles} shuffles; {plan.validation} validation rows; {plan.test_per_class} test rows of each class, which "
        f"are also the unlabelled rows. {_tuning(trials)}",
        "",
        *(f"- {notice}" for notice in plan.notices),
    ]
    if missing:
        lines += ["", f"**{missing} of {len(cells)} cells are missing.** The same command continues."]
    lines += ["", "## Accuracy", "", spread_table(models, "accuracy"), ""]
    lines += ["In %, mean ± standard deviation over the shuffles.", ""]
    if published:
        lines += ["The paper's averages, on its own data, which is not public:", "", published_table(found), ""]
    lines += ["![Accuracy against labels](figure4.svg)", ""]
    lines += ["![Accuracy per round](figure5.svg)", ""] if len(found.rounds) else []
    lines += ["## What the differences support", "", *(f"- {sentence}" for sentence in found.sentences), ""]
    lines += [claims_table(found.claims) if len(found.claims) else "Nothing: no pair of models to compare.", ""]
    if len(found.ablation):
        lines += ["## Ablation", "", ablation_table(found.ablation), ""]
    lines += ["## Calibration error", "", spread_table(models, "ece"), ""]
    lines += ["In %: how far the probability of the chosen class is from the share of rows that are right.", ""]
    lines += ["## Time", "", _markdown(found.seconds, "Seconds of a fit, with the encoding of the table."), ""]
    lines += ["## To bear in mind", "", *(f"- {text}" for text in caveats(plan.validation, trials)), ""]
    return "\n".join([*lines, "## Every shuffle", "", as_markdown(found.table_1)])


def caveats(validation: int, trials: int) -> list[str]:
    """Return what every reader of such a table should know."""
    further = f"{validation} further labels: at 35 labels a tuned method has seen {35 + validation}."
    return [
        f"Tuning uses {further}" if trials else f"Nothing is tuned here. Tuning would use {further}",
        "Labels and test rows are both balanced over the classes. The balancing target of the TSVMs is therefore "
        "exactly right here; in a population whose shares are not those of the labels it would not be.",
        "The shuffles are drawn from one table and share rows, so that the p-values are optimistic. With five shuffles "
        "a rank test could not go below .0625 at all.",
    ]


def spread_table(results: pd.DataFrame, column: str) -> str:
    """Return the mean of a column and its standard deviation over the shuffles, models down and sizes across."""
    both = results.groupby(["method", "labels"])[column].agg(["mean", "std"]) * 100

    def cell(name: str, size: int) -> str:
        if (name, size) not in both.index:
            return "–"
        mean, deviation = both.loc[(name, size)]
        return f"{mean:.2f}" + ("" if deviation != deviation else f" ± {deviation:.1f}")

    return _grid("model", in_order(results["method"].unique()), sorted(results["labels"].unique()), cell)


def published_table(found: Findings) -> str:
    """Return the paper's averages for the sizes at hand, in Markdown."""
    averages = published_averages(found.table_1.columns.tolist())
    return _markdown(averages.rename_axis("model").reset_index(), "")


def claims_table(claims: pd.DataFrame) -> str:
    """Return the tests in Markdown, claims down and sizes across."""
    rows = claims.set_index(["claim", "labels"])

    def cell(claim: str, size: int) -> str:
        if (claim, size) not in rows.index:
            return "–"
        row = rows.loc[(claim, size)]
        if row["p_holm"] != row["p_holm"]:
            return f"{row['difference']:+.2f}"
        mark = "**" if row["p_holm"] < 0.05 else ""
        return f"{mark}{row['difference']:+.2f}{mark} ({row['p_holm']:.3f})"

    grid = _grid("", list(claims["claim"].unique()), sorted(claims["labels"].unique()), cell)
    return (
        f"{grid}\n\nDifference in points, and Holm's p over the sizes in brackets; bold where it is below .05. "
        "`claims.csv` has effect sizes and uncorrected p-values."
    )


def ablation_table(ablation: pd.DataFrame) -> str:
    """Return the ablation in Markdown, variants down and sizes across."""
    rows = ablation.set_index(["what", "labels"])

    def cell(what: str, size: int) -> str:
        if (what, size) not in rows.index:
            return "–"
        row = rows.loc[(what, size)]
        alone = row["sd"] != row["sd"] or not (row["sd"] or row["difference"])
        return f"{row['accuracy']:.2f}" + ("" if alone else f" ({row['difference']:+.2f} ± {row['sd']:.2f})")

    grid = _grid("DeepSep", list(ablation["what"].unique()), sorted(ablation["labels"].unique()), cell)
    return (
        f"{grid}\n\nAccuracy in % at each number of labels; in brackets the difference to the published settings in "
        "points, with its standard deviation over the shuffles."
    )


def _grid(corner: str, down: Sequence[str], across: Sequence[int], cell: Callable[[str, int], str]) -> str:
    lines = [f"| {corner} | {' | '.join(map(str, across))} |", f"|{'---|' * (len(across) + 1)}"]
    lines += [f"| {name} | {' | '.join(cell(name, size) for size in across)} |" for name in down]
    return "\n".join(lines)


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

"""The paper's Table 1 and its significance tests, computed from finished cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from deepsep.core.arrays import Array
from deepsep.evaluation.intervals import holm
from deepsep.study.cells import LABELED_SIZES, Cell, read_report
from deepsep.study.study_models import (
    ALL_ROWS,
    DEFAULTS_NAME,
    ENSEMBLE_NN,
    FEW_ROWS,
    INITIAL_NN,
    LAST_NN,
    LINEAR_SVM,
    in_order,
)

# The averages of the paper's Table 1, in %.
PAPER_AVERAGES: dict[str, tuple[float, ...]] = {
    "LightGBM": (33.61, 38.79, 47.21, 52.48, 56.22, 58.51, 60.15),
    "TSVM": (39.42, 41.39, 44.00, 48.98, 50.79, 51.11, 51.90),
    "Mean Teacher": (40.98, 43.19, 47.87, 51.94, 55.14, 58.81, 59.65),
    "Initial NN": (40.96, 42.81, 44.98, 49.65, 52.75, 56.80, 59.03),
    "DeepSep-NN": (42.47, 44.17, 48.51, 53.50, 55.84, 57.85, 58.83),
    "DeepSep-Ensemble": (42.75, 44.57, 48.71, 53.26, 56.17, 58.31, 59.34),
}

RESULT_COLUMNS = [
    *("table", "shuffle", "labels", "method"),
    *("accuracy", "balanced_accuracy", "log_loss", "ece", "seconds", "shared_test_rows"),
]
# Pairs of models to compare: the paper's claims, the gain of a line from unlabelled rows and, where it was run, DeepSep
# with the defaults of this library.
CLAIMED_PAIRS = (
    (ENSEMBLE_NN, INITIAL_NN),
    (ENSEMBLE_NN, LAST_NN),
    (ENSEMBLE_NN, FEW_ROWS),
    (ENSEMBLE_NN, ALL_ROWS),
    (ENSEMBLE_NN, LINEAR_SVM),
    (FEW_ROWS, LINEAR_SVM),
    (ALL_ROWS, LINEAR_SVM),
    (ENSEMBLE_NN, "LightGBM"),
    (ENSEMBLE_NN, "LightGBM (few labels)"),
    (ENSEMBLE_NN, "Mean Teacher"),
    (DEFAULTS_NAME, ENSEMBLE_NN),
    (DEFAULTS_NAME, "LightGBM (few labels)"),
    (DEFAULTS_NAME, "Mean Teacher"),
)


def collect(cells: Iterable[Cell], folder: Path) -> pd.DataFrame:
    """Return one row per model, size and shuffle; every column but the seconds is deterministic."""
    rows = []
    for cell in cells:
        report = read_report(cell, folder)
        about = {"table": cell.table, "shuffle": cell.shuffle + 1, "labels": cell.labels}
        rows += [{**about, **row, "seconds": round(report["seconds"], 3)} for row in report["rows"]]
    frame = pd.DataFrame(rows, columns=RESULT_COLUMNS)
    return frame.sort_values(["table", "shuffle", "labels", "method"], ignore_index=True)


def rounds(cells: Iterable[Cell], folder: Path) -> pd.DataFrame:
    """Return the accuracy of network and moving average after every round of DeepSep (Figure 5 of the paper)."""
    rows = []
    for cell in cells:
        about = {"table": cell.table, "shuffle": cell.shuffle + 1, "labels": cell.labels, "variant": cell.variant}
        rows += [{**about, "round": t, **both} for t, both in enumerate(read_report(cell, folder)["rounds"])]
    columns = ["table", "shuffle", "labels", "variant", "round", "network", "average"]
    return pd.DataFrame(rows, columns=columns).sort_values(columns[:5], ignore_index=True)


def table_1(results: pd.DataFrame) -> pd.DataFrame:
    """Return accuracies in %, as in the paper's Table 1: one block per shuffle, averages last, one column per size."""
    pivot = results.pivot_table(index=["shuffle", "method"], columns="labels", values="accuracy") * 100
    average = pivot.groupby(level="method").mean()
    average.index = pd.MultiIndex.from_product([["Average"], average.index], names=["shuffle", "method"])
    table = pd.concat([pivot, average])
    blocks = [*pivot.index.unique("shuffle"), "Average"]
    ordered = [(block, name) for block in blocks for name in in_order(average.index.unique("method"))]
    return table.loc[[row for row in ordered if row in table.index]].round(2)


def published_averages(sizes: Sequence[int]) -> pd.DataFrame:
    """Return the averages that the paper printed, for the sizes that it has."""
    frame = pd.DataFrame.from_dict(PAPER_AVERAGES, orient="index", columns=list(LABELED_SIZES))
    return frame[[size for size in LABELED_SIZES if size in sizes]]


def claims(results: pd.DataFrame, pairs: Sequence[tuple[str, str]] = CLAIMED_PAIRS) -> pd.DataFrame:
    """Return paired t-tests over the shuffles: mean difference in points, effect size, p and Holm's p.

    The shuffles share rows, so these p-values are optimistic; those of the corrected resampled t-test are added.
    Holm's correction is applied over the sizes of each pair.
    """
    wide = results.pivot_table(index=["labels", "shuffle"], columns="method", values="accuracy") * 100
    shared = float(results["shared_test_rows"].mean()) if "shared_test_rows" in results else np.nan
    rows: list[dict[str, Any]] = []
    for better, worse in pairs:
        if better not in wide or worse not in wide:
            continue
        tests: list[dict[str, Any]] = []
        for size, both in wide[[better, worse]].dropna().groupby(level="labels"):
            gains = (both[better] - both[worse]).to_numpy()
            spread = gains.std(ddof=1) if len(gains) > 1 else np.nan
            row = {"claim": f"{better} over {worse}", "labels": size, "difference": gains.mean(), "sd": spread}
            row |= dict.fromkeys(("effect", "p", "p_corrected"), np.nan)
            if spread > 0:
                row["effect"] = gains.mean() / spread
                row["p"] = float(stats.ttest_1samp(gains, 0).pvalue)
                row["p_corrected"] = corrected_resampled_t(gains, shared)
            tests.append(row)
        for p in ("p", "p_corrected"):
            for row, adjusted in zip(tests, holm([row[p] for row in tests]).tolist(), strict=True):
                row[f"{p}_holm"] = adjusted
        rows += tests
    columns = ["claim", "labels", "difference", "sd", "effect", "p", "p_holm", "p_corrected", "p_corrected_holm"]
    return pd.DataFrame(rows, columns=columns)


def corrected_resampled_t(gains: Sequence[float] | Array, shared: float) -> float:
    r"""Return the two-sided p-value of the corrected resampled t-test (Nadeau and Bengio 2003).

    Results of random splits of one table vary together, as far as the splits share test rows. If :math:`\rho` is
    their correlation, the variance of the mean of J differences is :math:`(1/J + \rho / (1 - \rho)) s^2`, not
    :math:`s^2 / J`. Nadeau and Bengio take the share of test rows for :math:`\rho`: where all rows are either trained
    on or tested on, :math:`\rho / (1 - \rho)` is the number of test rows over that of training rows.
    """
    values = np.asarray(gains, dtype=float)
    variance = (1 / len(values) + shared / (1 - shared)) * values.var(ddof=1)
    return float(2 * stats.t.sf(abs(values.mean()) / np.sqrt(variance), len(values) - 1))


def ablation(results: pd.DataFrame, variants: Iterable[str]) -> pd.DataFrame:
    """Return the accuracy of DeepSep as published, of its initial and last network, and of the variants.

    Differences are from the published ensemble, in points, paired over the shuffles that have both.
    """
    columns = ["labels", "what", "accuracy", "difference", "sd", "shuffles"]
    changed = {f"{variant}: {ENSEMBLE_NN}": variant for variant in dict.fromkeys(variants)}
    wide = results.pivot_table(index=["labels", "shuffle"], columns="method", values="accuracy") * 100
    if not changed or ENSEMBLE_NN not in wide:
        return pd.DataFrame(columns=columns)
    names = {
        INITIAL_NN: "initial network",
        LAST_NN: "last network",
        ENSEMBLE_NN: "moving average (published)",
        **changed,
    }
    sizes = {size for size, _ in wide[[name for name in changed if name in wide]].dropna(how="all").index}
    rows = []
    for size, here in wide[wide.index.isin(sizes, level="labels")].groupby(level="labels"):
        for name, description in names.items():
            if name not in here:
                continue
            both = here[[name]].assign(published=here[ENSEMBLE_NN]).dropna()
            if both.empty:  # the run is not finished
                continue
            gains = both[name] - both["published"]
            rows.append((size, description, both[name].mean(), gains.mean(), gains.std(ddof=1), len(gains)))
    return pd.DataFrame(rows, columns=columns).round(2)


def claim_sentence(tested: pd.DataFrame, claim: str) -> str:
    """Return a sentence on the tests of one claim."""
    rows = tested[tested["claim"] == claim]
    significant = rows[rows["p_holm"] < 0.05]
    better, worse = claim.split(" over ")
    first = f"{better} minus {worse}: {rows['difference'].mean():+.2f} points on average over the sizes."
    if rows["p"].isna().all():
        return f"{first} No test is possible: it needs at least two shuffles whose differences vary."
    parts = []
    for sign, word in ((1, "better"), (-1, "worse")):
        sizes = significant[np.sign(significant["difference"]) == sign]["labels"].tolist()
        if sizes:
            parts.append(f"{word} at {', '.join(map(str, sizes))} labels")
    conclusion = " and ".join(parts) if parts else "no significant difference at any size"
    return f"{first} After Holm's correction: {conclusion}."


def table_1_text(table: pd.DataFrame) -> str:
    """Return Table 1 for a terminal."""
    width = max(len(method) for _, method in table.index)
    lines = [f"{'shuffle':<7}  {'model':<{width}}  " + "  ".join(f"{size:>5}" for size in table.columns)]
    for is_first, shuffle, method, values in _lines(table):
        lines += [""] * is_first
        lines.append(f"{shuffle:<7}  {method:<{width}}  " + "  ".join(f"{value:>5}" for value in values))
    return "\n".join(lines) + "\n"


def as_markdown(table: pd.DataFrame) -> str:
    """Return Table 1 in Markdown."""
    lines = [f"| shuffle | model | {' | '.join(map(str, table.columns))} |", f"|{'---|' * (len(table.columns) + 2)}"]
    lines += [f"| {shuffle} | {method} | {' | '.join(values)} |" for _, shuffle, method, values in _lines(table)]
    return "\n".join(lines) + "\n"


def as_latex(table: pd.DataFrame) -> str:
    """Return Table 1 in LaTeX, in the paper's layout."""
    lines = [r"\begin{tabular}{|l|l|" + "c " * len(table.columns) + "|}", r"\hline"]
    lines.append(r"Shuffle \# & Model & " + " & ".join(map(str, table.columns)) + r" \\")
    for is_first, shuffle, method, values in _lines(table):
        lines += [r"\hline"] * is_first
        lines.append(f"{shuffle} & {method} & {' & '.join(values)} \\\\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}", ""])


def _lines(table: pd.DataFrame) -> Iterator[tuple[bool, str, str, list[str]]]:
    """Yield the cells of each line, and whether a shuffle begins with it, which is named there only."""
    previous: Any = None
    for (shuffle, method), values in zip(table.index, table.to_numpy().tolist(), strict=True):
        is_first = shuffle != previous
        cells = ["–" if np.isnan(value) else f"{value:.2f}" for value in values]
        yield is_first, str(shuffle) if is_first else "", method, cells
        previous = shuffle

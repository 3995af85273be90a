"""Put the results of `deepsep experiment` into the documentation.

    python benchmarks/experiment_pages.py results/nhanes results/splice ...

For each folder given, its rows replace those of the same table in benchmarks/results/study.csv, its summary.md and
figures go to docs/results/experiment/, and its ablation.csv to benchmarks/results/study_ablation.csv. Then the tables
over all of them are made again in docs/results/experiment.md, between the marks `<!-- NAME -->` and `<!-- end -->`.
Without a folder, only these are made again, from the committed files.
"""

import re
import shutil
import sys
from pathlib import Path

import pandas as pd

from deepsep.study import results
from deepsep.study.study_models import (
    ALL_ROWS,
    DEFAULTS_NAME,
    ENSEMBLE_NN,
    FEW_ROWS,
    INITIAL_NN,
    LAST_NN,
    LINEAR_SVM,
)

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "results"
ROWS, ABLATION = (ROOT / "benchmarks" / "results" / f"{name}.csv" for name in ("study", "study_ablation"))
FIGURES = ("figure4.svg", "figure5.svg")
TABLES = ("nhanes", "hotel", "spotify", "satimage", "splice")
WITHOUT = "without autoencoder: "  # before the names of the models of this variant


def copy_page(folder):
    place = DOCS / "experiment"
    place.mkdir(exist_ok=True)
    text = (folder / "summary.md").read_text(encoding="utf-8")
    for figure in FIGURES:
        if (folder / figure).exists():
            shutil.copy(folder / figure, place / f"{folder.name}-{figure}")
        text = text.replace(f"]({figure})", f"]({folder.name}-{figure})")
    (place / f"{folder.name}.md").write_text(text, encoding="utf-8")


def merge(file, folder, name):
    """Replace the rows of a table in a committed file by those of a results folder."""
    if (folder / name).exists():
        old, new = pd.read_csv(file), pd.read_csv(folder / name).assign(table=folder.name)
        rows = pd.concat([old[old["table"] != folder.name], new], ignore_index=True)
        rows.to_csv(file, index=False, float_format="%.6g", lineterminator="\n")


def grid(corner, rows, sizes):
    lines = [f"| {corner} | {' | '.join(map(str, sizes))} |", f"|{'---|' * (len(sizes) + 1)}"]
    return "\n".join(lines + [f"| {name} | {' | '.join(cells)} |" for name, cells in rows])


def claim(tests, better, worse, corner=None):
    """Differences of one model from another, a row per table, a column per size.

    They are bold where Holm's p is below .05, with a dagger where that of the corrected resampled t-test is.
    """
    claimed = f"{better} over {worse}"
    sizes = sorted({size for table in tests.values() for size in table[table["claim"] == claimed]["labels"]})
    rows = []
    for name, table in tests.items():
        own = table[table["claim"] == claimed].set_index("labels")
        rows.append((name, [difference(own.loc[size]) if size in own.index else "–" for size in sizes]))
    return grid(corner or f"{better} minus {worse}", rows, sizes)


def difference(test):
    bold, dagger = ("**" if test["p_holm"] < 0.05 else ""), ("†" if test["p_corrected_holm"] < 0.05 else "")
    return f"{bold}{test['difference']:+.2f}{bold}{dagger}"


def ahead(tests, better, worse):
    """In how many cells the second model of a claim is ahead, and where by most, as a sentence."""
    cells = pd.concat(
        [table[table["claim"] == f"{better} over {worse}"].assign(table=name) for name, table in tests.items()],
        ignore_index=True,
    )
    lost = cells[cells["difference"] < 0]
    if lost.empty:
        return f"{worse} is nowhere ahead of {better}."
    most = cells.loc[cells["difference"].idxmin()]
    return (
        f"{worse} is ahead of {better} in {len(lost)} of {len(cells)} cells, by {-most['difference']:.1f} points on "
        f"{most['table']} at {most['labels']} labels."
    )


def relative(rows, worse=LAST_NN):
    """Gain of the ensemble over one model in % of its accuracy: the mean over sizes and shuffles."""
    gains = []
    for name in TABLES:
        wide = rows[rows["table"] == name].pivot_table(index=["labels", "shuffle"], columns="method", values="accuracy")
        gains.append(f"{name} {(100 * (wide[ENSEMBLE_NN] / wide[worse] - 1)).mean():+.2f} %")
    return "; ".join(gains)


def ablation(rows, sizes):
    """Differences from the published settings, a row per variant, a column per table and size; – where not fitted."""
    cells = rows.set_index(["what", "table", "labels"])
    columns = [(name, size) for name in TABLES for size in sizes]
    lines = [f"| DeepSep | {' | '.join(f'{name} {size}' for name, size in columns)} | mean |"]
    lines.append(f"|{'---|' * (len(columns) + 2)}")
    for what in dict.fromkeys(rows["what"]):
        if "published" in what:
            continue
        there = {column: cells.loc[(what, *column)] for column in columns if (what, *column) in cells.index}
        shown = [changed(there[column]) if column in there else "–" for column in columns]
        mean = f"{sum(cell['difference'] for cell in there.values()) / len(there):+.2f}" if there else "–"
        lines.append(f"| {what} | {' | '.join(shown)} | {mean} |")
    return "\n".join(lines)


def changed(cell):
    # With five shuffles, 2.78 standard errors are the 5 % of a t-test.
    mark = "**" if abs(cell["difference"]) > 2.78 * cell["sd"] / cell["shuffles"] ** 0.5 else ""
    return f"{mark}{cell['difference']:+.2f}{mark}"


def insert(page, name, text):
    mark = re.search(rf"<!-- {name} -->\n.*?<!-- end -->", page, re.S)
    if mark is None:
        raise SystemExit(f"docs/results/experiment.md has no mark <!-- {name} -->")
    return page[: mark.start()] + f"<!-- {name} -->\n\n{text}\n\n<!-- end -->" + page[mark.end() :]


def remake(page):
    """Return the page with its tables made again from the committed files."""
    rows = pd.read_csv(ROWS)
    pairs = (*results.CLAIMED_PAIRS, (WITHOUT + ENSEMBLE_NN, WITHOUT + INITIAL_NN))
    tests = {name: results.claims(rows[rows["table"] == name], pairs) for name in TABLES}
    few_labels, teacher = "LightGBM (few labels)", "Mean Teacher"
    without = f"{ENSEMBLE_NN} minus {INITIAL_NN}, both without autoencoder"
    parts = {
        "refinement": f"{claim(tests, ENSEMBLE_NN, INITIAL_NN)}\n\n{claim(tests, *pairs[-1], without)}",
        "last network": f"{claim(tests, ENSEMBLE_NN, LAST_NN)}\n\nIn % of its accuracy, over all sizes: "
        f"{relative(rows)}.",
        "tsvm": "\n\n".join(
            f"{claim(tests, ENSEMBLE_NN, worse)}\n\n{ahead(tests, ENSEMBLE_NN, worse)}"
            for worse in (FEW_ROWS, ALL_ROWS, LINEAR_SVM)
        ),
        "line": "\n\n".join(claim(tests, better, LINEAR_SVM) for better in (FEW_ROWS, ALL_ROWS)),
        "lightgbm": f"{claim(tests, ENSEMBLE_NN, 'LightGBM')}\n\n{claim(tests, ENSEMBLE_NN, few_labels)}",
        "mean teacher": claim(tests, ENSEMBLE_NN, teacher),
        "defaults": "\n\n".join(claim(tests, DEFAULTS_NAME, worse) for worse in (ENSEMBLE_NN, teacher, few_labels)),
        "ablation": "\n\n".join(ablation(pd.read_csv(ABLATION), sizes) for sizes in ((35, 50), (125, 500))),
    }
    for name, text in parts.items():
        page = insert(page, name, text)
    return page


if __name__ == "__main__":
    for folder in map(Path, sys.argv[1:]):
        copy_page(folder)
        merge(ROWS, folder, "table.csv")
        merge(ABLATION, folder, "ablation.csv")
    page = DOCS / "experiment.md"
    page.write_text(remake(page.read_text(encoding="utf-8")), encoding="utf-8")

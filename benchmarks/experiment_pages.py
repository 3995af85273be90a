"""Put the results of `deepsep experiment` into the documentation.

    python benchmarks/experiment_pages.py results/nhanes results/splice ...

For each folder given, its rows replace those of the same table in benchmarks/results/study.csv, its summary.md and
figures go to docs/experiment/, and its ablation.csv to benchmarks/results/study_ablation.csv. Then the tables over all
of them are made again in docs/results-experiment.md, between the marks `<!-- NAME -->` and `<!-- end -->`. Without a
folder, only these are made again, from the committed files.
"""

import re
import shutil
import sys
from pathlib import Path

import pandas as pd

from deepsep.experiments import results
from deepsep.experiments.study_models import DEFAULTS_NAME, ENSEMBLE, INITIAL, LAST, RAW

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ROWS, ABLATION = (ROOT / "benchmarks" / "results" / f"{name}.csv" for name in ("study", "study_ablation"))
FIGURES = ("figure4.svg", "figure5.svg")
TABLES = ("nhanes", "hotel", "spotify", "satimage", "splice")


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


def claim(tests, better, worse):
    """Differences of one model from another, a row per table, a column per size; bold where Holm's p is below .05."""
    sizes = sorted({size for table in tests.values() for size in table["labels"]})
    rows = []
    for name, table in tests.items():
        own = table[table["claim"] == f"{better} over {worse}"].set_index("labels")
        marks = ["**" if size in own.index and own.loc[size, "p_holm"] < 0.05 else "" for size in sizes]
        values = [f"{own.loc[size, 'difference']:+.2f}" if size in own.index else "–" for size in sizes]
        rows.append((name, [f"{mark}{value}{mark}" for mark, value in zip(marks, values, strict=True)]))
    return grid(f"{better} minus {worse}", rows, sizes)


def ahead(tests, better, worse):
    """In how many cells the second model of a claim is ahead, and where by most, as a sentence."""
    cells = pd.concat(
        [table[table["claim"] == f"{better} over {worse}"].assign(table=name) for name, table in tests.items()]
    )
    lost = cells[cells["difference"] < 0]
    most = cells.loc[cells["difference"].idxmin()]
    return (
        f"{worse} is ahead of {better} in {len(lost)} of {len(cells)} cells, by {-most['difference']:.1f} points on "
        f"{most['table']} at {most['labels']} labels."
    )


def relative(rows, worse=LAST):
    """Gain of the ensemble over one model in % of its accuracy: the mean over sizes and shuffles."""
    gains = []
    for name in TABLES:
        wide = rows[rows["table"] == name].pivot_table(index=["labels", "shuffle"], columns="method", values="accuracy")
        gains.append(f"{name} {(100 * (wide[ENSEMBLE] / wide[worse] - 1)).mean():+.2f} %")
    return "; ".join(gains)


def ablation(rows):
    """Differences from the published settings, a row per variant, a column per table and size."""
    cells = rows.set_index(["what", "table", "labels"])
    columns = [(name, size) for name in TABLES for size in sorted(rows[rows["table"] == name]["labels"].unique())]
    lines = [f"| DeepSep | {' | '.join(f'{name} {size}' for name, size in columns)} | mean |"]
    lines.append(f"|{'---|' * (len(columns) + 2)}")
    for what in dict.fromkeys(rows["what"]):
        if "published" in what:
            continue
        values = [cells.loc[(what, *column)] for column in columns]
        # With five shuffles, 2.78 standard errors are the 5 % of a t-test.
        marks = ["**" if abs(v["difference"]) > 2.78 * v["sd"] / v["shuffles"] ** 0.5 else "" for v in values]
        shown = [f"{mark}{v['difference']:+.2f}{mark}" for mark, v in zip(marks, values, strict=True)]
        lines.append(f"| {what} | {' | '.join(shown)} | {sum(v['difference'] for v in values) / len(values):+.2f} |")
    return "\n".join(lines)


def insert(page, name, text):
    mark = re.search(rf"<!-- {name} -->\n.*?<!-- end -->", page, re.S)
    if mark is None:
        raise SystemExit(f"docs/results-experiment.md has no mark <!-- {name} -->")
    return page[: mark.start()] + f"<!-- {name} -->\n\n{text}\n\n<!-- end -->" + page[mark.end() :]


def remake(page):
    """Return the page with its tables made again from the committed files."""
    rows = pd.read_csv(ROWS)
    tests = {name: results.claims(rows[rows["table"] == name]) for name in TABLES}
    few_labels, teacher = "LightGBM (few labels)", "Mean Teacher"
    parts = {
        "refinement": claim(tests, ENSEMBLE, INITIAL),
        "last network": f"{claim(tests, ENSEMBLE, LAST)}\n\nIn % of its accuracy, over all sizes: {relative(rows)}.",
        "tsvm": f"{claim(tests, ENSEMBLE, RAW)}\n\n{ahead(tests, ENSEMBLE, RAW)}",
        "lightgbm": f"{claim(tests, ENSEMBLE, 'LightGBM')}\n\n{claim(tests, ENSEMBLE, few_labels)}",
        "mean teacher": claim(tests, ENSEMBLE, teacher),
        "defaults": "\n\n".join(claim(tests, DEFAULTS_NAME, worse) for worse in (ENSEMBLE, teacher, few_labels)),
        "ablation": ablation(pd.read_csv(ABLATION)),
    }
    for name, text in parts.items():
        page = insert(page, name, text)
    return page


if __name__ == "__main__":
    for folder in map(Path, sys.argv[1:]):
        copy_page(folder)
        merge(ROWS, folder, "table.csv")
        merge(ABLATION, folder, "ablation.csv")
    page = DOCS / "results-experiment.md"
    page.write_text(remake(page.read_text(encoding="utf-8")), encoding="utf-8")

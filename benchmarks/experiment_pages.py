"""Put what `deepsep experiment` wrote into the documentation: one page a table, and what they say together.

    python benchmarks/experiment_pages.py results/nhanes results/splice ...

Each folder's summary.md and figures go to docs/experiment/; the tables over all of them go to
docs/results-experiment.md, between the marks `<!-- NAME -->` and `<!-- end -->`.
"""

import re
import shutil
import sys
from pathlib import Path

import pandas as pd

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = ("figure4.svg", "figure5.svg")
ENSEMBLE, DEFAULTS = "DeepSep-Ensemble", "DeepSep (defaults)"


def copy_page(folder):
    place = DOCS / "experiment"
    place.mkdir(exist_ok=True)
    text = (folder / "summary.md").read_text(encoding="utf-8")
    for figure in FIGURES:
        shutil.copy(folder / figure, place / f"{folder.name}-{figure}")
        text = text.replace(f"]({figure})", f"]({folder.name}-{figure})")
    (place / f"{folder.name}.md").write_text(text, encoding="utf-8")


def grid(corner, rows, sizes):
    lines = [f"| {corner} | {' | '.join(map(str, sizes))} |", f"|{'---|' * (len(sizes) + 1)}"]
    return "\n".join(lines + [f"| {name} | {' | '.join(cells)} |" for name, cells in rows])


def claim(folders, better, worse, sizes):
    """Differences of one model to another, tables down and sizes across; bold where Holm's p is below .05."""
    rows = []
    for folder in folders:
        tests = pd.read_csv(folder / "claims.csv").set_index(["claim", "labels"])
        cells = []
        for size in sizes:
            if (f"{better} over {worse}", size) not in tests.index:
                cells.append("–")
                continue
            row = tests.loc[(f"{better} over {worse}", size)]
            mark = "**" if row["p_holm"] < 0.05 else ""
            cells.append(f"{mark}{row['difference']:+.2f}{mark}")
        rows.append((folder.name, cells))
    return grid(f"{better} minus {worse}", rows, sizes)


def relative(folders, worse="DeepSep-NN"):
    """Gain of the ensemble over one model in % of its accuracy: the mean over sizes and shuffles."""
    found = []
    for folder in folders:
        wide = pd.read_csv(folder / "table.csv").pivot_table(
            index=["labels", "shuffle"], columns="method", values="accuracy"
        )
        gain = 100 * (wide["DeepSep-Ensemble"] / wide[worse] - 1)
        found.append(f"{folder.name} {gain.mean():+.2f} %")
    return "; ".join(found)


def ablation(folders):
    """Differences to the published settings, variants down, tables and sizes across."""
    tables = {folder.name: pd.read_csv(folder / "ablation.csv").set_index(["what", "labels"]) for folder in folders}
    columns = [(name, size) for name, table in tables.items() for size in sorted(table.index.unique("labels"))]
    names = dict.fromkeys(what for table in tables.values() for what, _ in table.index)
    lines = [f"| DeepSep | {' | '.join(f'{name} {size}' for name, size in columns)} | mean |"]
    lines.append(f"|{'---|' * (len(columns) + 2)}")
    for what in names:
        if "published" in what:
            continue
        values = [tables[name].loc[(what, size)] for name, size in columns]
        # With five shuffles, 2.8 standard errors are the 5 % of a t-test.
        marks = ["**" if abs(v["difference"]) > 2.78 * v["sd"] / v["shuffles"] ** 0.5 else "" for v in values]
        cells = [f"{mark}{v['difference']:+.2f}{mark}" for mark, v in zip(marks, values, strict=True)]
        mean = sum(v["difference"] for v in values) / len(values)
        lines.append(f"| {what} | {' | '.join(cells)} | {mean:+.2f} |")
    return "\n".join(lines)


def insert(page, name, text):
    found = re.search(rf"<!-- {name} -->\n.*?<!-- end -->", page, re.S)
    if found is None:
        raise SystemExit(f"docs/results-experiment.md has no mark <!-- {name} -->")
    return page[: found.start()] + f"<!-- {name} -->\n\n{text}\n\n<!-- end -->" + page[found.end() :]


if __name__ == "__main__":
    folders = [Path(name) for name in sys.argv[1:]]
    for folder in folders:
        copy_page(folder)
    fixed = [folder for folder in folders if (folder / "ablation.csv").exists()]
    sizes = sorted({size for folder in fixed for size in pd.read_csv(folder / "claims.csv")["labels"]})
    parts = {
        "refinement": claim(fixed, ENSEMBLE, "Initial NN", sizes),
        "last network": claim(fixed, ENSEMBLE, "DeepSep-NN", sizes)
        + f"\n\nIn % of its accuracy, over all sizes: {relative(fixed)}.",
        "lightgbm": claim(fixed, ENSEMBLE, "LightGBM", sizes)
        + "\n\n"
        + claim(fixed, ENSEMBLE, "LightGBM (few labels)", sizes),
        "mean teacher": claim(fixed, ENSEMBLE, "Mean Teacher", sizes),
        "defaults": "\n\n".join(
            claim(fixed, DEFAULTS, worse, sizes) for worse in (ENSEMBLE, "Mean Teacher", "LightGBM (few labels)")
        ),
        "ablation": ablation(fixed),
    }
    file = DOCS / "results-experiment.md"
    page = file.read_text(encoding="utf-8")
    for name, text in parts.items():
        page = insert(page, name, text)
    file.write_text(page, encoding="utf-8")

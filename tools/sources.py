"""What the pages may cite: a reader for every file in benchmarks/results, and for the pages of the paper's study.

`SOURCES` holds the names for the expressions of `check_numbers.py`. A CSV file is known by its name:
`tsvm_speed.value("ratio", unlabeled=20000)`. Accuracies and calibration errors of `methods` are in per cent, and means
over draws, then over tables.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import stats

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SIZES = (35, 125, 500)
WORDS = {
    "lightgbm-few-labels": "LightGBM, settings for few labels",
    "random-forest": "random forest",
    "random-forest, known shares": "random forest, known shares",
    "mean-teacher": "Mean Teacher",
    "deepsep": "**DeepSep**",
    "logistic-regression": "logistic regression",
    "lightgbm": "LightGBM, defaults",
}


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("| --- ", "|---").replace("--- |", "---|")


def first_number(text: str) -> float:
    found = re.search(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?", text)
    if found is None:
        raise ValueError(f"{text!r} is no number")
    return float(found[0])


def mean_and_interval(by_table: Sequence[float]) -> list[float]:
    """Return the mean over tables, and an interval of 90 % by drawing tables."""
    gains = np.array(by_table)
    drawn = np.random.default_rng(0).integers(len(gains), size=(10_000, len(gains)))
    return [float(gains.mean()), *(float(end) for end in np.quantile(gains[drawn].mean(1), [0.05, 0.95]))]


class Results:
    """A CSV file as a benchmark wrote it: every cell as text."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def frame(self) -> pd.DataFrame:
        return pd.read_csv(self.path, dtype=str, keep_default_na=False)

    def rows(self, **where: Any) -> pd.DataFrame:
        """Return the rows in which the columns have these values."""
        frame = self.frame
        for column, wanted in where.items():
            frame = frame[frame[column] == str(wanted)]
        if frame.empty:
            raise ValueError(f"{self.path.name} has no row with {where}")
        return frame

    def values(self, column: str, **where: Any) -> list[float]:
        return [first_number(cell) for cell in self.rows(**where)[column]]

    def value(self, column: str, **where: Any) -> float:
        values = self.values(column, **where)
        if len(values) != 1:
            raise ValueError(f"{self.path.name} has {len(values)} rows with {where}")
        return values[0]

    def table(self, *columns: str, **where: Any) -> str:
        """Return these columns, or all, as they are in the file; long numbers with commas, nothing as a dash."""
        frame = self.rows(**where)[list(columns or self.frame.columns)]
        return markdown(list(frame), [[self._cell(cell) for cell in row] for row in frame.to_numpy()])

    @staticmethod
    def _cell(text: str) -> str:
        return re.sub(r"^\d{4,}(?=×?$)", lambda m: f"{int(m[0]):,}", re.sub(r"^-(?=\d)", "−", text)) or "–"

    def grid(self, row: str, column: str, cell: str) -> str:
        """Return a table of one column down and one across; `cell` is a format of the other columns."""
        frame = self.frame
        across = list(dict.fromkeys(frame[column]))
        lines = [
            [name, *(cell.format(**part[part[column] == other].iloc[0]) for other in across)]
            for name, part in frame.groupby(row, sort=False)
        ]
        return markdown([row, *(f"{other} {column}" for other in across)], lines)


class Methods(Results):
    """Every method on public tables: benchmarks/methods.py."""

    ELSEWHERE = ("deepsep", "lightgbm", "lightgbm-few-labels", "xgboost")  # timed on another, busy machine
    SIX = ("nhanes_segments", "hotel_segments", "census_segments", "satimage", "splice", "spotify_genre")

    @cached_property
    def cells(self) -> dict[tuple[str, int, str], dict[str, float]]:
        """Means over draws of a method with so many labels on a table."""
        frame = self.frame.astype({"labels": int, "accuracy": float, "ece": float})
        return dict((100 * frame.groupby(["method", "labels", "table"])[["accuracy", "ece"]].mean()).to_dict("index"))

    @cached_property
    def tables(self) -> list[str]:
        return sorted(set(self.frame["table"]) - {"digits"})

    def _mean(self, figure: str, method: str, labels: int, tables: str | Sequence[str] | None) -> float:
        names = [tables] if isinstance(tables, str) else tables or self.tables
        return mean(self.cells[method, labels, name][figure] for name in names)

    def accuracy(self, method: str, labels: int, table: str | Sequence[str] | None = None) -> float:
        return self._mean("accuracy", method, labels, table)

    def accuracies(self, method: str, table: str | Sequence[str] | None = None) -> list[float]:
        return [self.accuracy(method, labels, table) for labels in SIZES]

    def errors(self, method: str, table: str | Sequence[str] | None = None) -> list[float]:
        return [self._mean("ece", method, labels, table) for labels in SIZES]

    def mean(self, method: str, table: str | Sequence[str] | None = None) -> float:
        return mean(self.accuracies(method, table))

    def covering(self, tables: Sequence[str] | None = None) -> list[str]:
        """Return the methods that were run on all of these tables, the most accurate one first."""
        cells = [(labels, name) for labels in SIZES for name in tables or self.tables]
        names = {method for method, _, _ in self.cells}
        covering = [method for method in names if all((method, *cell) in self.cells for cell in cells)]
        return sorted(covering, key=lambda method: -self.mean(method, tables))

    def rank(self, method: str, table: str, labels: int) -> int:
        """Return 1 for the most accurate of the methods that were run on all tables."""
        mine = self.accuracy(method, labels, table)
        return 1 + sum(self.accuracy(other, labels, table) > mine for other in self.covering())

    def best_on(self, method: str) -> list[str]:
        """Return the tables and numbers of labels where no method is more accurate."""
        return [f"{name} {size}" for name in self.tables for size in SIZES if self.rank(method, name, size) == 1]

    def gains(self, method: str, other: Methods, labels: int) -> dict[str, float]:
        """Return for each table how many points the method here is ahead of the one in another file."""
        return {
            name: self.accuracy(method, labels, name) - other.accuracy(method, labels, name) for name in self.tables
        }

    def beside(self, other: Methods, method: str, mine: str, theirs: str) -> str:
        """Return a method's figures here and in another file."""
        rows = [
            [name, *(f"{value:.1f}" for value in file.accuracies(method)), per_size(file.errors(method))]
            for name, file in ((theirs, other), (mine, self))
        ]
        return markdown(["settings", *map(str, SIZES), "calibration error"], rows)

    def summary(self, *methods: str) -> str:
        """Return the table of README.md: methods by their names in prose."""
        rows = [
            [WORDS[name], *(f"{value:.1f}" for value in self.accuracies(name)), per_size(self.errors(name))]
            for name in methods
        ]
        return markdown(["method", *map(str, SIZES), "calibration error"], rows)

    def ranking(self, tables: Sequence[str] | None = None) -> str:
        """Return all methods that were run on these tables, with the median of the seconds of a fit."""
        rows = []
        for name in self.covering(tables):
            seconds = self.rows(method=name)
            seconds = pd.to_numeric(seconds[seconds["table"].isin(tables or self.tables)]["seconds"]).median()
            figures = [*self.accuracies(name, tables), self.mean(name, tables)]
            timed = "†" if name in self.ELSEWHERE else f"{seconds:.2f}" if seconds < 0.1 else f"{seconds:.1f}"
            rows.append([name, *(f"{value:.1f}" for value in figures), per_size(self.errors(name, tables)), timed])
        return markdown(["method", *map(str, SIZES), "mean", "calibration error", "seconds"], rows)

    def per_table(self, methods: Sequence[str], tables: Sequence[str]) -> str:
        rows = [
            [name, str(size), *(f"{self.accuracy(name, size, table):.1f}" for table in tables)]
            for name in methods
            for size in SIZES
        ]
        return markdown(["method", "labels", *(name.partition("_")[0] for name in tables)], rows)


class MoreMethods(Methods):
    """Further methods, beside those of `methods.csv` on the same tables and draws: benchmarks/methods.py."""

    BESIDE: ClassVar[tuple[str, ...]] = (
        *("random-forest", "lightgbm-few-labels", "mean-teacher", "svm", "self-training", "label-spreading"),
        *("label-propagation", "semiboost", "tsvm", "deepsep"),
    )

    @cached_property
    def frame(self) -> pd.DataFrame:
        mine, others = (Results(place).frame for place in (self.path, self.path.with_name("methods.csv")))
        return pd.concat([mine, others[others["method"].isin(self.BESIDE)]], ignore_index=True)

    @cached_property
    def first(self) -> MoreMethods:
        """The first draw alone, on which every method was run."""
        first = type(self)(self.path)
        first.frame = self.frame[self.frame["seed"] == "0"]
        return first

    @cached_property
    def new(self) -> list[str]:
        """The methods that are in this file alone."""
        return sorted(set(Results(self.path).frame["method"]))

    def once(self) -> list[str]:
        """Return the methods that were run on the first draw alone."""
        draws = self.frame.groupby("method")["seed"].nunique()
        return sorted(draws.index[draws == 1])

    def absent(self) -> list[tuple[str, ...]]:
        """Return the cells that have no line: method, table, labels and draw."""
        whole = product(sorted(set(self.new) - set(self.once())), self.tables, map(str, SIZES), "012")
        have = set(self.frame[["method", "table", "labels", "seed"]].itertuples(index=False, name=None))
        return [cell for cell in whole if cell not in have]

    def covering(self, tables: Sequence[str] | None = None) -> list[str]:
        """Return the methods that were run on all of these tables and on every draw, the most accurate one first."""
        draws = self.frame.groupby("method")["seed"].nunique()
        return [name for name in super().covering(tables) if draws[name] == draws.max()]

    def ranking(self, tables: Sequence[str] | None = None, methods: Sequence[str] | None = None) -> str:
        """Return these methods, or all that were run on these tables and every draw; those of this file in bold."""
        rows = [
            [
                f"**{name}**" if name in self.new else name,
                *(f"{value:.1f}" for value in (*self.accuracies(name, tables), self.mean(name, tables))),
                per_size(self.errors(name, tables)),
            ]
            for name in self.covering(tables)
            if methods is None or name in methods
        ]
        return markdown(["method", *map(str, SIZES), "mean", "calibration error"], rows)


class MoreTransductiveSVMs(MoreMethods):
    """Other transductive SVMs, beside the TSVM and methods without unlabelled rows."""

    BESIDE = ("random-forest", "logistic-regression", "svm", "tsvm")


class MethodsOfThePaper(MoreMethods):
    """Methods that the paper names, next to their closest relatives."""

    BESIDE = (
        *("random-forest", "logistic-regression", "mean-teacher", "pi-model", "temporal-ensembling"),
        *("vae-m1", "vae-m2"),
    )


class AdversarialNetworks(MoreMethods):
    """Generative adversarial networks, beside other networks and two forests."""

    BESIDE = (
        *("random-forest", "lightgbm-few-labels", "mean-teacher", "deepsep", "pseudo-label", "entropy-network"),
        *("svm-network", "vae-m1", "vae-m2", "ladder"),
    )
    GANS = ("feature-matching-gan", "complement-gan", "triple-gan")

    @cached_property
    def done(self) -> list[str]:
        """The tables on which all of them were run with every number of labels."""
        cells = [(name, labels) for name in self.GANS for labels in SIZES]
        return [table for table in self.tables if all((*cell, table) in self.cells for cell in cells)]

    def added(self, method: str, other: Results, *tables: str) -> list[float]:
        """Return how many points a method is ahead of the network without made-up rows, by the number of labels."""
        tables = tables or tuple(dict.fromkeys(other.frame["table"]))
        none = [100 * mean(mean(other.values("accuracy", labels=n, table=name)) for name in tables) for n in SIZES]
        return [mine - without for mine, without in zip(self.accuracies(method, tables), none, strict=True)]

    def beside_none(self, other: Results) -> str:
        """Return accuracies on the tables of another file, which has those without made-up rows."""
        tables = list(dict.fromkeys(other.frame["table"]))
        names = (*self.GANS, "svm-network", "mean-teacher")
        rows = [[name, *(f"{value:.1f}" for value in self.accuracies(name, tables))] for name in names]
        none = [f"{100 * mean(other.values('accuracy', labels=size)):.1f}" for size in SIZES]
        return markdown(["method", *map(str, SIZES)], [*rows, ["no made-up rows, all else the same", *none]])


class BookErrors(Results):
    """Test errors on the sets of the SSL book: benchmarks/ssl_book.py."""

    NAMES: ClassVar = {"digit1": "Digit1", "usps": "USPS", "bci": "BCI", "g241c": "g241c", "g241d": "g241d"}

    def beside(self, quoted: Results) -> str:
        """Return each setting's errors, a column for a set and number of labels, and the book's below."""
        keys = [(name, size) for size in ("10", "100") for name in dict.fromkeys(self.frame["set"])]
        lines = []
        for (name, settings), part in self.frame.groupby(["method", "settings"], sort=False):
            cells = {(row["set"], row["labels"]): row["error"] for _, row in part.iterrows()}
            lines.append([f"{name}, {settings}", *(cells.get(key, "–") for key in keys)])
        for name in quoted.frame["method"].unique():
            cells = [quoted.rows(method=name, set=self.NAMES[key], labels=size)["error"].iloc[0] for key, size in keys]
            lines.append([f"*{name}, quoted from the book*", *cells])
        return markdown(["", *(f"{self.NAMES[name]}, {size}" for name, size in keys)], lines)


def per_size(values: Sequence[float]) -> str:
    return " / ".join(f"{value:.0f}" for value in values)


class Refinement(Results):
    """DeepSep beside its own first network, table by table: benchmarks/deepsep_accuracy.py."""

    def gains(self) -> str:
        keys = [(settings, size) for settings in self.frame["settings"].unique() for size in SIZES]
        rows = [
            [table, *(f"{self.value('gain', settings=s, labels=size, table=table):+.1f}" for s, size in keys)]
            for table in self.frame["table"].unique()
        ]
        return markdown(["table", *(f"{settings}, {size}" for settings, size in keys)], rows)


class Draws(Results):
    """Accuracy over draws of rows and labels: benchmarks/tsvm_draws.py."""

    def by_method(self, case: str) -> dict[str, list[float]]:
        return {
            name: self.values("accuracy", case=case, method=name) for name in self.rows(case=case)["method"].unique()
        }

    def means(self, case: str) -> list[float]:
        return [mean(values) for values in self.by_method(case).values()]

    def medians(self, case: str) -> list[float]:
        return [median(values) for values in self.by_method(case).values()]

    def first(self, case: str) -> list[float]:
        """Return the accuracy of every method in the first draw."""
        return [values[0] for values in self.by_method(case).values()]

    def better_and_worse(self, case: str) -> list[int]:
        """Return in how many draws the TSVM is better than the SVM, and in how many worse."""
        svm, tsvm = (self.by_method(case)[name] for name in ("SVM", "TSVM"))
        gains = [b - a for a, b in zip(svm, tsvm, strict=True)]
        return [sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)]


class UnlabeledCurve(Results):
    """Accuracy on new rows against the number of unlabelled rows: benchmarks/unlabelled_rows.py."""

    STEPS: ClassVar = ((0, 1_000), (1_000, 10_000), (10_000, 100_000), (100_000, 1_000_000))

    def pairs(self, method: str, step: tuple[int, int], figure: str = "accuracy") -> pd.Series[float]:
        """Return by how many points the second size is better than the first, for draws that have both."""
        frame = self.frame[(self.frame["method"] == method) & (self.frame[figure] != "")]
        grid = frame.astype({"asked": int, figure: float}).pivot_table(figure, ["population", "draw"], "asked")
        both = grid.reindex(columns=step).dropna()
        return both[step[1]] - both[step[0]]

    def gain(self, method: str, start: int, end: int, population: str | None = None) -> float:
        """Return the mean of these over draws, then over populations."""
        means = self.pairs(method, (start, end)).groupby("population").mean()
        return float(means.mean() if population is None else means[population])

    def student_gap(self, size: int) -> float:
        """Return how many points more the student gets right than its committee."""
        rows = self.rows(method="committee", asked=size)
        rows = rows[rows["student"] != ""].astype({"student": float, "accuracy": float})
        return float((rows["student"] - rows["accuracy"]).mean())

    def steps(self) -> str:
        """Return a table of the gains of each step: over all populations, with the number of draws of all together."""
        head = ["", *(f"{start:,} → {end:,}" for start, end in self.STEPS)]
        rows = [[name, *(self._cell_of(self.pairs(name, step)) for step in self.STEPS)] for name in self._methods]
        return markdown(head, rows)

    def by_population(self, method: str) -> str:
        """Return a table of the gains of a method, population by population."""
        rows = []
        for name in dict.fromkeys(self.frame["population"]):
            parts = [self.pairs(method, step) for step in self.STEPS]
            own = [part[part.index.get_level_values("population") == name] for part in parts]
            rows.append([name.replace("_", " "), *map(self._cell_of, own)])
        return markdown(["", *(f"{start:,} → {end:,}" for start, end in self.STEPS)], rows)

    @property
    def _methods(self) -> list[str]:
        return list(dict.fromkeys(self.frame["method"]))

    @staticmethod
    def _cell_of(pairs: pd.Series[float]) -> str:
        if not len(pairs):
            return "–"
        value = f"{pairs.groupby('population').mean().mean():+.1f}".replace("-", "−").replace("−0.0", "0.0")
        return f"{value.replace('+0.0', '0.0')} ({len(pairs)})"


class UnlabeledGrowth(Results):
    """Time and memory of a fit against the number of rows: benchmarks/unlabelled_rows.py."""

    def exponent(self, fit: str, figure: str, start: int, end: int) -> float:
        """Return the power of the number of rows with which a figure grows."""
        before, after = (self.value(figure, fit=fit, rows=rows) for rows in (start, end))
        return math.log(after / before) / math.log(end / start)

    def extrapolated(self, fit: str, rows: int, figure: str = "processor_seconds") -> float:
        """Return a figure for more rows than were measured, by its growth from one million to ten."""
        most = 10_000_000
        power = self.exponent(fit, figure, most // 10, most)
        return self.value(figure, fit=fit, rows=most) * (rows / most) ** power


class Errors(Results):
    """Test errors of TSVM and SVM for settings: benchmarks/tsvm_accuracy.py."""

    FIXED: ClassVar = {"kernel": "RBF, γ = 1/median²", "C": "10"}

    def best(self, method: str, **where: Any) -> float:
        return min(self.values(method, **where))

    def best_by_kernel(self, *methods: str, **where: Any) -> str:
        kernels = [{"kernel": name} for name in dict.fromkeys(self.rows(**where)["kernel"])]
        rows = [
            [choice.get("kernel", "all"), *(f"{self.best(name, **where, **choice):.2f}" for name in methods)]
            for choice in [*kernels, {}]
        ]
        return markdown(["kernel", *methods], rows)

    def fixed_and_best(self, quoted: Results) -> str:
        """Return the table of the book's sets: one setting for all, the best of five, and the published errors."""
        rows = []
        for (name, labels), part in self.frame[self.frame["set"] != "g50c"].groupby(["set", "labels"], sort=False):
            here = {"set": name, "labels": labels}
            best = part.loc[part["TSVM, auto"].astype(float).idxmin()]
            published = quoted.frame[(quoted.frame["set"] == name) & (quoted.frame["labels"] == labels)]
            cells = [f"{self.value(method, **here, **self.FIXED):.2f}" for method in ("SVM", "TSVM, auto")]
            cells += [f"{self.best(method, **here):.2f}" for method in ("SVM", "TSVM, auto")]
            cells += [f"{best['kernel']}, C = {best['C']}"]
            cells += [*published.iloc[0, 2:]] if len(published) else ["", ""]
            rows.append([name, labels, *(cell or "–" for cell in cells)])
        head = ["SVM, fixed", "TSVM, fixed", "SVM, best", "TSVM, best", "best TSVM setting", *quoted.frame.columns[2:]]
        return markdown(["set", "labels", *head], rows)

    def better_fixed(self, labels: int) -> list[str]:
        """Return the book's sets on which the TSVM with the fixed setting errs less than the SVM."""
        rows = self.rows(labels=labels, **self.FIXED)
        return [row["set"] for _, row in rows.iterrows() if float(row["TSVM, auto"]) < float(row["SVM"])]


class Study:
    """The pages of the paper's study, made by `deepsep experiment` and benchmarks/experiment_pages.py."""

    ENSEMBLE = "DeepSep-Ensemble"

    @staticmethod
    def _table(page: str, corner: str) -> list[list[str]]:
        """Return the first table on a page whose first cell is this."""
        text = (ROOT / "docs" / "results" / page).read_text(encoding="utf-8")
        table = re.search(rf"^\| {re.escape(corner)} \|.*?(?=\n\n|\Z)", text, re.M | re.S)
        if table is None:
            raise ValueError(f"docs/results/{page} has no table {corner!r}")
        return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[0].splitlines()]

    def accuracy(self, table: str, model: str, labels: int) -> float:
        head, _, *rows = self._table(f"experiment/{table}.md", "model")
        return first_number({row[0]: row for row in rows}[model][head.index(str(labels))])

    def _cells(self, better: str, worse: str) -> dict[tuple[str, int], str]:
        head, _, *rows = self._table("experiment.md", f"{better} minus {worse}")
        cells = [(row[0], int(size), cell) for row in rows for size, cell in zip(head[1:], row[1:], strict=True)]
        return {(name, size): cell for name, size, cell in cells if cell != "–"}

    def differences(self, better: str, worse: str) -> dict[tuple[str, int], float]:
        """Return for each table and number of labels how many points one model is ahead of another."""
        return {place: float(cell.strip("*†")) for place, cell in self._cells(better, worse).items()}

    def significant(self, better: str, worse: str, mark: str = "**") -> list[tuple[str, int]]:
        """Return the cells with this mark: ** for the paired t-test, † for the corrected resampled one."""
        return [place for place, cell in self._cells(better, worse).items() if mark in cell]

    def behind(self, better: str, worse: str) -> list[int]:
        """Return in how many cells the first model is behind the second, and the number of cells."""
        gains = self.differences(better, worse).values()
        return [sum(gain < 0 for gain in gains), len(gains)]

    def gain(self, better: str, worse: str, labels: int, apart: Sequence[str] = ()) -> float:
        """Return the mean difference of two models over the tables but for these."""
        gains = self.differences(better, worse)
        return mean(gain for (name, size), gain in gains.items() if size == labels and name not in apart)

    def refinement(self, labels: int, apart: Sequence[str] = (), without: str = "") -> float:
        """Return the mean gain of the moving average over the initial network."""
        return self.gain(self.ENSEMBLE, "Initial NN" + without, labels, apart)

    def average_gains(self) -> dict[str, float]:
        """Return for each table the gain of the moving average over the last network, in % of its accuracy."""
        text = (ROOT / "docs" / "results" / "experiment.md").read_text(encoding="utf-8")
        line = re.search(r"In % of its accuracy, over all sizes: (.*)\.$", text, re.M)
        assert line is not None
        return {name: float(gain) for name, gain in re.findall(r"([\w-]+) ([+-][\d.]+) %", line[1])}


def evaluation(run: int) -> dict[str, Any]:
    """Return the evaluation at the end of a training of the in-context network."""
    lines = (ROOT / "pretraining" / "runs" / f"{run}.jsonl").read_text(encoding="utf-8").splitlines()
    return dict(json.loads(lines[-1]))


def evaluation_table(run: int) -> str:
    result = evaluation(run)
    digits = {"accuracy": 1, "calibration": 1, "log_loss": 3, "shares": 1}
    rows = [
        [view, *(" / ".join(f"{x:.{places}f}" for x in result[view][figure]) for figure, places in digits.items())]
        for view in ("columns", "components", "both")
    ]
    units = ["accuracy, %", "calibration error, points", "log loss", "error of the estimated shares, points"]
    return markdown(["view", *units], rows)


class InContext(Results):
    """The in-context network on the tables of `methods`, and elsewhere: benchmarks/in_context.py."""

    FIGURES: ClassVar = {"accuracy": (100, 1), "ece": (100, 1), "log_loss": (1, 2)}
    SHARES: ClassVar = {
        "shares_network": "the network's estimate",
        "shares_labels": "shares among the labels",
        "shares_mean": "mean of the probabilities",
        "shares_em": "EM on the probabilities",
    }

    def part(self, part: str, **where: Any) -> pd.DataFrame:
        newest = self.rows(part=part)["settings"].iloc[-1]
        frame = self.rows(part=part, settings=newest, **where).astype({"labels": int, "unlabeled": int, "seed": int})
        numbers = [*self.FIGURES, *self.SHARES, "covered", "weight", "seconds", "cpu_seconds", "megabytes"]
        return frame.assign(**{name: pd.to_numeric(frame[name]) for name in numbers})

    @staticmethod
    def _means(frame: pd.DataFrame, figure: str) -> list[float]:
        """Return the mean over draws, then over tables, at each number of labels."""
        each = frame.groupby(["labels", "table"])[figure].mean().groupby("labels").mean()
        return [float(value) for value in each]

    def accuracies(self, view: str = "both", part: str = "tables") -> list[float]:
        return [100 * value for value in self._means(self.part(part, view=view), "accuracy")]

    def errors(self, view: str = "both") -> list[float]:
        return [100 * value for value in self._means(self.part("tables", view=view), "ece")]

    def beside(self, *methods: str) -> str:
        """Return the views and other methods on the same draws."""
        frames = {f"in-context, {view}": self.part("tables", view=view) for view in ("both", "columns", "components")}
        draws = frames["in-context, both"][["table", "labels", "seed"]]
        others = SOURCES["methods"].frame.astype({"labels": int, "seed": int}).merge(draws)
        others = others.assign(**{name: pd.to_numeric(others[name]) for name in self.FIGURES})
        frames |= {WORDS[name].strip("*"): others[others["method"] == name] for name in methods}
        rows = [
            [
                name,
                *(
                    " / ".join(f"{scale * value:.{digits}f}" for value in self._means(frame, figure))
                    for figure, (scale, digits) in self.FIGURES.items()
                ),
            ]
            for name, frame in sorted(frames.items(), key=lambda item: -mean(self._means(item[1], "accuracy")))
        ]
        return markdown(["method", "accuracy, %", "calibration error, points", "log loss"], rows)

    def gains(self, labels: int, method: str = "random-forest") -> list[float]:
        """Return for each table how many points both views are ahead of another method on the same draws."""
        mine = self.part("tables", view="both", labels=labels).groupby("table")["accuracy"].mean()
        other = SOURCES["methods"]
        return [100 * value - other.accuracy(method, labels, table) for table, value in mine.items()]

    def interval(self, labels: int) -> list[float]:
        """Return the mean gain over a random forest, and an interval of 90 % by drawing tables."""
        return mean_and_interval(self.gains(labels))

    def per_table(self) -> str:
        frame = self.part("tables", view="both")
        rows = [
            [
                table,
                " / ".join(f"{100 * value:.1f}" for value in part.groupby("labels")["accuracy"].mean()),
                " / ".join(f"{value:.1f}" for value in SOURCES["methods"].accuracies("random-forest", table)),
            ]
            for table, part in frame.groupby("table")
        ]
        return markdown(["table", "in-context, both views", "random forest"], rows)

    def shares(self) -> str:
        frame = self.part("tables", view="both")
        rows = [
            [words, " / ".join(f"{value:.1f}" for value in self._means(frame, name))]
            for name, words in self.SHARES.items()
        ]
        return markdown(["estimate", "error at 35 / 125 / 500 labels"], rows)

    def covered(self) -> list[float]:
        """Return how many of the intervals of 90 % hold the share of the class, in per cent."""
        return [100 * value for value in self._means(self.part("tables", view="both"), "covered")]

    def by_unlabeled(self, part: str) -> pd.DataFrame:
        """Return accuracies: tables and numbers of labels down, numbers of unlabelled rows across."""
        frame = self.part(part)
        return 100 * frame.pivot_table(index=["table", "labels"], columns="unlabeled", values="accuracy")

    def unlabeled(self) -> str:
        parts = [("18 tables", self.by_unlabeled("unlabeled")), ("two moons", self.by_unlabeled("moons"))]
        rows = [
            [name, str(labels), *(f"{value:.1f}" for value in line)]
            for name, wide in parts
            for labels, line in wide.groupby("labels").mean().iterrows()
        ]
        return markdown(["", "labels", *(f"{n:,}" for n in parts[0][1].columns)], rows)

    def unlabeled_gains(self) -> dict[str, float]:
        """Return what 1,000 unlabelled rows in the context give on each table, over all numbers of labels."""
        wide = self.by_unlabeled("unlabeled")
        return dict((wide[1000] - wide[0]).groupby("table").mean())

    def book_gain(self, name: str, labels: int, quoted: Results) -> float:
        """Return by how many points the test error on a set is below the published one of the TSVM."""
        accuracy = self.part("book", view="both", table=name.lower(), labels=labels)["accuracy"].mean()
        published = next(n for n in quoted.frame["set"] if n.split()[0] == name)
        return quoted.value("TSVM (book)", set=published, labels=labels) - 100 * (1 - float(accuracy))

    def book(self, quoted: Results) -> str:
        error = 100 - 100 * self.part("book", view="both").groupby(["table", "labels"])["accuracy"].mean().unstack()
        published = list(quoted.frame.columns[2:])
        names = {name.split()[0].lower(): name for name in quoted.frame["set"]}
        rows = []
        for name, line in error.iterrows():
            cells = []
            for column in published:
                found = quoted.frame[quoted.frame["set"] == names.get(name, "")].set_index("labels")[column]
                cells.append(" / ".join(found.get(str(size), "") or "–" for size in (10, 100)))
            rows.append([names.get(name, name).split()[0], " / ".join(f"{value:.1f}" for value in line), *cells])
        return markdown(["set", "in-context, both views", *published], rows)


class Decisions(Results):
    """Sets of classes and the rows above a confidence: benchmarks/decisions.py."""

    @cached_property
    def cells(self) -> pd.DataFrame:
        names = ("level", "labels", "found", "worst", "accuracy", "size", "share", "expected", "low", "high")
        return self.frame.assign(**{name: pd.to_numeric(self.frame[name]) for name in names})

    def _part(self, what: str, draws: str) -> pd.DataFrame:
        return self.cells[(self.cells["what"] == what) & (self.cells["draws"] == draws)]

    def _sets(self, draws: str, level: float) -> pd.DataFrame:
        """Return the figures of sets, means over draws."""
        part = self._part("sets", draws)
        part = part[part["level"] == level]
        off = 100 * (part["found"] - level)
        beyond = 100 * (part["found"] - part["accuracy"].clip(lower=level))
        return part.assign(off=off, beyond=beyond).groupby(["labels", "table"])[["off", "beyond", "size"]].mean()

    def sets(self, figure: str, draws: str = "quota, known", level: float = 0.9) -> list[float]:
        """Return a mean over tables at each number of labels: points "off" the coverage, "beyond" it, or "size"."""
        return [float(value) for value in self._sets(draws, level)[figure].groupby("labels").mean()]

    def worst_class(self, what: str, labels: int, level: float = 0.9) -> float:
        """Return the coverage of the worst class, in per cent; mean over tables where sets per class can be made."""
        found = {}
        for name in ("sets", "sets per class"):
            part = self._part(name, "quota, known")
            part = part[(part["level"] == level) & (part["labels"] == labels)]
            found[name] = 100 * part.set_index(["table", "seed"])["worst"]
        return float(found[what].loc[found["sets per class"].index].groupby("table").mean().mean())

    def lowest(self, draws: str = "quota, known", level: float = 0.9) -> list[float]:
        """Return how many points the coverage is off on the worst table, at each number of labels."""
        return [float(value) for value in self._sets(draws, level)["off"].groupby("labels").min()]

    def accepted(self, by: str | None, draws: str = "quota, known") -> list[float]:
        """Return in how many fits, in per cent, an interval holds: for each number of "labels", "level", or in all."""
        part = self._part("accepted", draws).dropna(subset="expected")
        inside = 100 * ((part["low"] <= part["found"]) & (part["found"] <= part["high"]))
        return [float(inside.mean())] if by is None else [float(v) for v in inside.groupby(part[by]).mean()]


class OtherWeights(Results):
    """The in-context network before and after its last training, and committees with it: benchmarks/committee.py."""

    FIGURES: ClassVar = {"accuracy": (100, 1), "log_loss": (1, 3)}

    def gain(self, variant: str, labels: int, figure: str = "accuracy") -> list[float]:
        """Return what the training gained on all draws, a mean over tables and an interval by drawing tables."""
        frame = self.rows(variant=variant, labels=labels)
        wide = frame.assign(value=pd.to_numeric(frame[figure])).pivot_table(
            index=["table", "how", "seed"], columns="weights", values="value"
        )
        gains = self.FIGURES[figure][0] * (wide["now"] - wide["before"])
        return mean_and_interval(list(gains.groupby("table").mean()))

    def gained(self, *variants: str) -> str:
        """Return the gains in accuracy and log loss with each number of labels."""
        rows = [
            [name, str(size), *(self._words(self.gain(name, size, figure), figure) for figure in self.FIGURES)]
            for name in variants
            for size in SIZES
        ]
        return markdown(["", "labels", "accuracy, points", "log loss"], rows)

    def _words(self, gain: list[float], figure: str) -> str:
        digits = self.FIGURES[figure][1]
        value, low, high = (f"{each:+.{digits}f}".replace("-", "−") for each in gain)
        return f"{value} ({low} to {high})"


class Committees(Results):
    """The committee, parts of it and single methods on the same draws: benchmarks/committee.py."""

    FIGURES: ClassVar = {"accuracy": (100, 1), "ece": (100, 1), "log_loss": (1, 2)}
    SINGLE = ("random-forest", "lightgbm-few-labels", "logistic-regression")
    METHODS = (*SINGLE, "extra-trees", "deepsep", "in-context", "in-context-components")

    @cached_property
    def frame(self) -> pd.DataFrame:
        baselines = self.path.with_name("committee_baselines.csv")
        return pd.concat([Results(place).frame for place in (self.path, baselines)], ignore_index=True).fillna("")

    @cached_property
    def cells(self) -> pd.DataFrame:
        frame = self.frame.astype({"labels": int, "seed": int})
        numbers = [*self.FIGURES, "expected", "low", "high", "plain", "plain_low", "plain_high"]
        return frame.assign(**{name: pd.to_numeric(frame[name]) for name in numbers})

    def part(self, variant: str, how: str = "quota") -> pd.DataFrame:
        found = self.cells[(self.cells["variant"] == variant) & (self.cells["how"] == how)]
        if found.empty:
            raise ValueError(f"{self.path.name} has no {variant} with {how} labels")
        return found

    def draws(self, labels: int, how: str = "quota") -> int:
        return int(self.part("committee", how).query(f"labels == {labels}")["seed"].nunique())

    def means(
        self, variant: str, figure: str = "accuracy", how: str = "quota", tables: Sequence[str] | None = None
    ) -> list[float]:
        """Return the means over draws, then over tables, at each number of labels."""
        part = self.part(variant, how)
        part = part if tables is None else part[part["table"].isin(tables)]
        each = part.groupby(["labels", "table"])[figure].mean().groupby("labels").mean()
        return [self.FIGURES[figure][0] * float(each[size]) for size in SIZES if size in each]

    def ranking(self, *variants: str, how: str = "quota", tables: Sequence[str] | None = None) -> str:
        """Return these variants and single methods, the most accurate first."""
        rows = [
            [
                WORDS.get(name, name).strip("*"),
                *(
                    " / ".join(f"{value:.{digits}f}" for value in self.means(name, figure, how, tables))
                    for figure, (_, digits) in self.FIGURES.items()
                ),
            ]
            for name in sorted(variants, key=lambda name: -mean(self.means(name, how=how, tables=tables)))
        ]
        rows = [[cell.replace("nan / nan / nan", "–") for cell in row] for row in rows]
        return markdown(["", "accuracy, %", "calibration error, points", "log loss"], rows)

    def first(self, figure: str, *others: str, how: str = "quota") -> bool:
        """Whether the committee is better than all others at every number of labels."""
        sign = 1 if figure == "accuracy" else -1
        mine = self.means("committee", figure, how)
        return all(
            sign * own > sign * other
            for name in others
            for own, other in zip(mine, self.means(name, figure, how), strict=True)
        )

    def by_table(self, variant: str, labels: int, how: str = "quota") -> pd.Series[float]:
        part = self.part(variant, how)
        return 100 * part[part["labels"] == labels].groupby("table")["accuracy"].mean()

    def gains(
        self,
        labels: int,
        method: str,
        *,
        mine: str = "committee",
        how: str = "quota",
        tables: Sequence[str] | None = None,
    ) -> list[float]:
        """Return for each table how many points the committee is ahead of a method."""
        gains = self.by_table(mine, labels, how) - self.by_table(method, labels, how)
        return list(gains if tables is None else gains[gains.index.isin(tables)])

    def interval(self, labels: int, method: str, **which: Any) -> list[float]:
        """Return the mean gain over a method, and an interval of 90 % by drawing tables."""
        return mean_and_interval(self.gains(labels, method, **which))

    def leads(self) -> str:
        """Return how far the committee is ahead of a random forest: mean with interval, and median over tables."""
        rows = []
        for words, how in (("quotas", "quota"), ("labels drawn at random", "random")):
            for known in ("", ", known shares"):
                mine, forest = f"committee{known}", f"random-forest{known}"
                leads = [self.gains(size, forest, mine=mine, how=how) for size in SIZES]
                form = "{:.1f} ({:.1f} to {:.1f}), median {:.1f}".format
                rows.append([words + known, *(form(*mean_and_interval(lead), median(lead)) for lead in leads)])
        return markdown(["labels", *map(str, SIZES)], rows)

    def below_guessing(self, variant: str = "committee", how: str = "quota") -> list[str]:
        """Return the tables and numbers of labels on which the most frequent class is right more often."""
        return [
            f"{table} {labels}"
            for labels in sorted(set(self.part(variant, how)["labels"]))
            for table, gain in (
                self.by_table(variant, labels, how) - self.by_table("most frequent class", labels, how)
            ).items()
            if gain < 0
        ]

    def hindsight(self, how: str = "quota") -> list[int]:
        """Return on how many tables the best single method there is ahead, at each number of labels."""
        there = set(self.cells[self.cells["how"] == how]["variant"])
        methods, found = [name for name in self.METHODS if name in there], []
        for labels in SIZES:
            best = pd.concat([self.by_table(name, labels, how) for name in methods], axis=1).max(axis=1)
            found.append(int((best > self.by_table("committee", labels, how)).sum()))
        return found

    def behind(self, points: float = 1.5) -> dict[str, float]:
        """Return where the best supervised method is ahead by more than so many points, and by how many."""
        found = {}
        for labels in SIZES:
            best = pd.concat([self.by_table(name, labels) for name in self.SINGLE], axis=1).max(axis=1)
            gap = best - self.by_table("committee", labels)
            found |= {f"{table} {labels}": float(value) for table, value in gap.items() if value > points}
        return found

    def per_table(self) -> str:
        tables = sorted(set(self.part("committee")["table"]))
        words = {name: {size: self.by_table(name, size) for size in SIZES} for name in ("committee", *self.SINGLE)}
        rows = [
            [table, *(" / ".join(f"{each[size][table]:.1f}" for size in SIZES) for each in words.values())]
            for table in tables
        ]
        return markdown(["table", *(WORDS.get(name, name) for name in words)], rows)

    def at(self, labels: int, *variants: str) -> str:
        """Return these variants and single methods with one number of labels, the most accurate first."""
        parts = {name: self.part(name).query(f"labels == {labels}") for name in variants}
        means = {name: part.groupby("table")[list(self.FIGURES)].mean().mean() for name, part in parts.items()}
        rows = [
            [
                WORDS.get(name, name).strip("*"),
                *(f"{times * means[name][figure]:.{digits}f}" for figure, (times, digits) in self.FIGURES.items()),
            ]
            for name in sorted(variants, key=lambda name: -means[name]["accuracy"])
        ]
        return markdown(["", "accuracy, %", "calibration error, points", "log loss"], rows)

    def tables(self, labels: int) -> list[str]:
        return sorted(set(self.part("committee").query(f"labels == {labels}")["table"]))

    def folds(self, *kinds: str) -> str:
        """Return other numbers of folds, where all of them were measured."""
        rows = []
        for labels, part in self.cells[self.cells["variant"].isin(kinds)].groupby("labels"):
            counts = part.groupby(["table", "seed"])["variant"].transform("nunique")
            kinds_here = [kind for kind in kinds if kind in set(part["variant"])]
            part = part[counts == len(kinds_here)]
            fits = len(part) // len(kinds_here)
            for kind in kinds_here:
                own = part[part["variant"] == kind]
                means = own.groupby("table")[list(self.FIGURES)].mean().mean()
                inside = own["accuracy"].between(own["low"], own["high"]).mean()
                figures = [f"{times * means[name]:.{digits}f}" for name, (times, digits) in self.FIGURES.items()]
                rows.append([str(labels), kind, str(fits), *figures, f"{100 * inside:.0f} %"])
        return markdown(
            ["labels", "", "fits", "accuracy, %", "calibration error, points", "log loss", "interval holds in"], rows
        )

    def unpromised(self, how: str = "quota") -> list[str]:
        """Return the tables and numbers of labels with fits that promise no accuracy, as no label can be held out."""
        part = self.part("committee", how)
        part = part[part["expected"].isna()]
        return sorted({f"{table} {labels}" for table, labels in zip(part["table"], part["labels"], strict=True)})

    def promises(self, *lines: tuple[str, str, str], how: str = "quota") -> str:
        """Return how far promised accuracies are off: for each line its words, a variant, and "" or "plain"."""
        rows = []
        for words, variant, kind in lines:
            part = self.part(variant, how)
            low, high = (part[f"{kind}_{end}" if kind else end] for end in ("low", "high"))
            off = 100 * (part[kind or "expected"] - part["accuracy"])
            inside = 100 * part["accuracy"].between(low, high)
            figures = pd.DataFrame({"labels": part["labels"], "off": off.abs(), "bias": off, "inside": inside})
            figures = figures[part["expected"].notna()].groupby("labels").mean()
            formats = {"off": ".1f", "bias": "+.1f", "inside": ".0f"}
            cells = [" / ".join(f"{value:{form}}" for value in figures[name]) for name, form in formats.items()]
            rows.append([words, *(cell.replace("-", "−") for cell in cells)])
        head = ["", "off by, points", "too high by, points", "90 % interval holds, % of fits"]
        return markdown(head, rows)

    def fits(self, how: str = "quota") -> list[int]:
        """Return how many fits promise an accuracy, at each number of labels."""
        part = self.part("committee", how)
        return [int(part[part["labels"] == size]["expected"].notna().sum()) for size in sorted(set(part["labels"]))]

    def covered(self, variant: str, kind: str = "", how: str = "quota", sizes: Sequence[int] = SIZES) -> list[float]:
        """Return in how many fits the interval of 90 % holds the accuracy on the unlabelled rows, in per cent."""
        part = self.part(variant, how).dropna(subset=["expected"])
        low, high = (f"{kind}{end}" for end in ("low", "high"))
        inside = (part[low] <= part["accuracy"]) & (part["accuracy"] <= part[high])
        each = inside.groupby(part["labels"]).mean()
        return [100 * float(each[size]) for size in sizes if size in each]

    def off(self, variant: str, column: str = "expected", how: str = "quota") -> list[float]:
        """Return how far an estimate of the accuracy is off, in points, on average."""
        part = self.part(variant, how).dropna(subset=["expected"])
        each = (part[column] - part["accuracy"]).abs().groupby(part["labels"]).mean()
        return [100 * float(each[size]) for size in SIZES if size in each]


class Tables(Results):
    """The tables that were measured, and which of them anyone can make anew: benchmarks/make_tables.py."""

    def remade(self, how: str = "the same") -> list[str]:
        return list(self.rows(remade=how)["table"])


class KeptAside(Results):
    """Figures of tables that were never used in development, quoted."""

    def accuracy(self, method: str, labels_are: str = "quotas") -> list[float]:
        (row,) = self.rows(**{"labels are": labels_are, "method": method, "figure": "accuracy, %"}).to_dict("records")
        return [float(row[str(size)]) for size in SIZES if row[str(size)]]

    def lead(self, method: str, over: str) -> list[float]:
        """Return how many points a method is ahead of another, at each number of labels."""
        return [mine - other for mine, other in zip(self.accuracy(method), self.accuracy(over), strict=True)]


class SmallTables(Results):
    """Gains over a tuned forest on small tables: benchmarks/small_tables.py."""

    NAMES: ClassVar = {
        "committee": "**deepsep, committee**",
        "committee, before": "deepsep, committee before",
        "committee: in-context": "deepsep, in-context, columns",
        "committee: in-context-components": "deepsep, in-context, components",
        "tabicl": "TabICLv2",
        "tabpfn3": "TabPFN-3",
        "tabfm": "TabFM",
        "catboost": "CatBoost, tuned",
        "lgbm": "LightGBM, tuned",
        "xgboost": "XGBoost, tuned",
    }
    FIGURES: ClassVar = {
        "mean": "mean",
        "median": "median",
        "mean without hills": "mean of the others",
        "median without hills": "median of the others",
    }

    def ranking(self) -> str:
        """Return the models, the best first."""
        frame = self.frame[self.frame["model"].isin(self.NAMES)]
        frame = frame.assign(order=-frame["mean"].astype(float)).sort_values("order")
        rows = [
            [
                self.NAMES[row["model"]],
                row["tables"],
                *(f"{float(row[name]):+.1f}".replace("-", "−") for name in self.FIGURES),
            ]
            for row in frame.to_dict("records")
        ]
        return markdown(["model", "tables", *self.FIGURES.values()], rows)

    def lead(self, over: str) -> list[float]:
        """Return how many points the committee is ahead of another model, with the ends of an interval."""
        return [self.value(name, model=f"committee minus {over}") for name in ("mean", "low", "high")]


class Additions(Results):
    """What was added to the committee, with its usual weights: benchmarks/committee_additions.py."""

    FIGURES: ClassVar = {"accuracy": (100, 1), "log_loss": (1, 3)}
    PAIRS: ClassVar = {
        "the network with 128 columns": ("in-context", "in-context, 72 columns"),
        "its committee": ("committee", "committee, before"),
        "a committee with the spectral view": ("committee with the spectral view", "committee"),
    }

    @cached_property
    def cells(self) -> pd.DataFrame:
        numbers = {"labels": int, "columns": int, "accuracy": float, "ece": float, "log_loss": float, "seconds": float}
        return self.frame.astype(numbers)

    def gains(self, mine: str, other: str, figure: str, **where: Any) -> list[float]:
        """Return the gain of a variant over another for each table."""
        frame = self.cells
        for column, wanted in where.items():
            frame = frame[frame[column] == wanted]
        if other != "committee":
            frame = frame[frame["columns"] > 72]
        wide = frame.pivot_table(index=["table", "how", "labels", "seed"], columns="variant", values=figure)
        gain = self.FIGURES.get(figure, (1, 1))[0] * (wide[mine] - wide[other])
        return list(gain.groupby("table").mean())

    def gain(self, mine: str, other: str, figure: str = "accuracy", **where: Any) -> list[float]:
        """Return the mean gain, and an interval by drawing tables."""
        return mean_and_interval(self.gains(mine, other, figure, **where))

    def cost(self, mine: str, other: str) -> float:
        """Return the ratio of the processor times of two variants on the tables with more than 72 columns."""
        seconds = self.cells[self.cells["columns"] > 72].groupby("variant")["seconds"].sum()
        return float(seconds[mine] / seconds[other])

    def gained(self) -> str:
        """Return the gains in accuracy and log loss by kind and number of labels."""
        kinds = self.cells[["how", "labels"]].drop_duplicates().sort_values(["how", "labels"])
        words = {"quota": "quotas", "random": "drawn at random"}
        rows = [
            [
                name,
                words[how],
                str(labels),
                str(len(self.gains(*pair, "accuracy", how=how, labels=labels))),
                *(self._words(*pair, figure, how, labels) for figure in self.FIGURES),
            ]
            for name, pair in self.PAIRS.items()
            for how, labels in kinds.itertuples(index=False)
        ]
        return markdown(["", "labels are", "labels", "tables", "accuracy, points", "log loss"], rows)

    def _words(self, mine: str, other: str, figure: str, how: str, labels: int) -> str:
        digits = self.FIGURES[figure][1]
        value, low, high = (
            f"{each:+.{digits}f}".replace("-", "−") for each in self.gain(mine, other, figure, how=how, labels=labels)
        )
        return f"{value} ({low} to {high})"


class DemoDraws(Results):
    """The committee beside single methods on ten draws: benchmarks/demo.py. Figures are in per cent."""

    SUPERVISED = ("random-forest", "extra-trees", "lightgbm-few-labels", "logistic-regression")
    NAMES: ClassVar = {
        "committee": "**committee**",
        "committee/in-context": "– its in-context network, view of the columns",
        "committee/in-context-components": "– its in-context network, view of the components",
        "deepsep": "DeepSep",
        "random-forest": "random forest",
        "extra-trees": "extra trees",
        "lightgbm-few-labels": "LightGBM, settings for few labels",
        "logistic-regression": "logistic regression",
        "most-frequent": "always the most frequent class",
    }

    def by_draw(self, table: str, figure: str = "accuracy") -> pd.DataFrame:
        """Return a column for each method and a row for each draw."""
        frame = self.rows(table=table)
        frame = frame[frame[figure] != ""].astype({figure: float})
        return 100 * frame.pivot(index="draw", columns="method", values=figure)

    def accuracy(self, table: str, method: str) -> float:
        return float(self.by_draw(table)[method].mean())

    def error(self, table: str, method: str) -> float:
        """Return the calibration error."""
        return float(self.by_draw(table, "ece")[method].mean())

    def expected(self, table: str) -> list[float]:
        """Return how many rows the committee's folds promise, on average, and how far off that is in a single draw."""
        promise, found = (self.by_draw(table, figure)["committee"] for figure in ("expected", "accuracy"))
        return [float(promise.mean()), float((promise - found).abs().mean())]

    def best(self, table: str) -> str:
        """Return the supervised method that is right most often over all draws."""
        return max(self.SUPERVISED, key=lambda name: self.accuracy(table, name))

    def lead(self, table: str, over: str, figure: str = "accuracy") -> list[float]:
        """Return the committee's mean difference from a method, and the ends of its 95 % interval by Student's t."""
        wide = self.by_draw(table, figure)
        lead = wide["committee"] - wide[over]
        half = float(stats.t.ppf(0.975, len(lead) - 1) * lead.std(ddof=1) / math.sqrt(len(lead)))
        return [float(lead.mean()), float(lead.mean()) - half, float(lead.mean()) + half]

    def wins(self, table: str, over: str) -> int:
        """Return in how many draws the committee is right more often."""
        wide = self.by_draw(table)
        return int((wide["committee"] > wide[over]).sum())

    def overview(self, table: str) -> str:
        right, ece, loss = (self.by_draw(table, figure).mean() for figure in ("accuracy", "ece", "log_loss"))
        rows = []
        for name in right.sort_values(ascending=False).index.intersection(list(self.NAMES), sort=False):
            gap = "" if name == "committee" else "{:+.1f} ({:+.1f} to {:+.1f})".format(*self.lead(table, name))
            stated = [f"{ece[name]:.0f}", f"{loss[name] / 100:.2f}"] if name in ece else ["", ""]
            rows.append([self.NAMES[name], f"{right[name]:.1f}", gap.replace("-", "−"), *stated])
        head = ["", "right, %", "committee's lead, 95 % interval", "calibration error, points", "log loss"]
        return markdown(head, rows)


class Drift(Results):
    """Alarms about rows that differ from a training table: benchmarks/drift.py."""

    SAMPLES: ClassVar = {"100": "100 rows", "1000": "1,000 rows", "0": "all rows"}
    CHANGES: ClassVar = {
        "none": "none",
        "x 1,000": "a number × 1,000",
        "+ 0.5 sd": "a number shifted by half a standard deviation",
        "gaps 5 to 30 %": "gaps in 30 instead of 5 % of the rows",
        "new level, 5 %": "a new level in 5 % of the rows",
        "two swapped": "two columns of numbers swapped",
        "one class x 4": "a class four times as frequent",
    }

    def alarms(self, column: str = "detected", **where: Any) -> float:
        """Return how many files raised an alarm, in per cent."""
        return 100 * mean(self.values(column, **where))

    def files(self, **where: Any) -> int:
        return len(self.rows(**where))

    def few(self, few: bool) -> Drift:
        """Return the files that were compared with 300 rows, or the others."""
        part = Drift(self.path)
        part.__dict__["frame"] = self.frame[(self.frame["training_rows"] == "300") == few]
        return part

    def summary(self) -> str:
        rows = [
            [
                words,
                *(
                    f"{self.few(few).alarms(change=change, sample=sample):.1f}"
                    for few in (False, True)
                    for sample in self.SAMPLES
                ),
            ]
            for change, words in self.CHANGES.items()
        ]
        head = [f"{words}{against}" for against in ("", ", 300 in training") for words in self.SAMPLES.values()]
        return markdown(["change", *head], rows)


class DriftAnswers(Drift):
    """The same for the answers of models."""

    KINDS: ClassVar = {"detected": "any", "classes": "the classes", "confidence": "the confidence"}

    def summary(self) -> str:
        rows = [
            [
                WORDS.get(part, part.upper()),
                self.CHANGES[change],
                words,
                *(f"{self.alarms(kind, part=part, change=change, sample=sample):.1f}" for sample in self.SAMPLES),
            ]
            for part in ("logistic-regression", "random-forest", "tsvm")
            for change in ("none", "one class x 4")
            for kind, words in self.KINDS.items()
        ]
        return markdown(["method", "change", "alarm about", *self.SAMPLES.values()], rows)


def wilson(share: float, n: int) -> list[int]:
    """Return the bounds of Wilson's 90 % interval in whole per cent, where this share of n is right."""
    z = 1.6448536
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return [round(100 * (centre - half)), round(100 * (centre + half))]


class Labeling(Results):
    """Labels to doubt and rows to label: benchmarks/labelling.py. Figures are means over tables and draws, in %."""

    def _wide(self, part: str, learner: str, rules: Sequence[str]) -> pd.DataFrame:
        """Return the last values of these rules where all of them were measured: tables and draws down."""
        frame = self.rows(part=part, learner=learner).astype({"labels": int, "value": float})
        frame = frame[frame["rule"].isin(rules) & (frame["labels"] == frame["labels"].max())]
        return 100 * frame.pivot_table(index=["table", "draw"], columns="rule", values="value").dropna()

    def found(self, rule: str = "relative probability", learner: str = "trees") -> float:
        """Return how many of the flipped labels are among the first 15 % of the list."""
        return float(self._wide("doubt", learner, [rule])[rule].mean())

    def gain(self, rule: str, other: str = "random", learner: str = "trees", part: str = "next") -> list[float]:
        """Return how many points a rule is ahead of another on the same draws, and the standard error."""
        wide = self._wide(part, learner, [rule, other])
        gains = wide[rule] - wide[other]
        return [float(gains.mean()), float(gains.std(ddof=1) / math.sqrt(len(gains)))]

    def ahead(self, rule: str, other: str = "random", learner: str = "trees") -> list[int]:
        """Return on how many tables a rule is ahead of another on average, and of how many."""
        wide = self._wide("next", learner, [rule, other]).groupby("table").mean()
        return [int((wide[rule] > wide[other]).sum()), len(wide)]

    def cells(self, part: str, learner: str = "trees", *rules: str) -> int:
        return len(self._wide(part, learner, rules))

    def doubt(self) -> str:
        rules = self.rows(part="doubt")["rule"].unique()
        found = {rule: [self.found(rule, learner) for learner in ("trees", "committee")] for rule in rules}
        rows = [
            [rule, *(f"{value:.0f} %" for value in found[rule])] for rule in sorted(found, key=found.__getitem__)[::-1]
        ]
        return markdown(["rank labels by", "forest and LightGBM", "committee"], rows)

    def next(self, learner: str = "trees") -> str:
        """Return every rule's gain over random rows, the best first."""
        rules = [rule for rule in self.rows(part="next", learner=learner)["rule"].unique() if rule != "random"]
        lines = sorted(((rule, *self.gain(rule, learner=learner)) for rule in rules), key=lambda line: -line[1])
        counts = {rule: self.cells("next", learner, rule, "random") for rule in rules}
        rows = [[rule, f"{gain:+.1f} ± {error:.1f}", str(counts[rule])] for rule, gain, error in lines]
        return markdown(["choose rows by", "points more than random rows", "tables and draws"], rows)


class Typing(Results):
    """Agreement of typing tools with the full segments, in per cent: benchmarks/typing_tool.py."""

    def curves(self, *questions: int) -> str:
        """Return the agreement of every questionnaire by number of questions, and of all questions."""
        lines = []
        for name, part in self.frame.groupby("questionnaire", sort=False):
            first, by_number = part.iloc[0], dict(zip(part["questions"], part["agreement"], strict=True))
            size = [f"{int(first['respondents']):,}", first["items"]]
            lines.append([str(name), *size, *(by_number.get(str(m), "–") for m in questions), first["all"]])
        return markdown(["questionnaire", "respondents", "questions", *map(str, questions), "all"], lines)


class TypingRules(Results):
    """The same for other ways to choose questions."""

    def beside(self, typing: Results, questions: int) -> str:
        """Return their agreement beside that of the tool, with so many questions."""
        rules = list(dict.fromkeys(self.frame["rule"]))
        lines = []
        for name in dict.fromkeys(self.frame["questionnaire"]):
            at = {"questionnaire": name, "questions": questions}
            others = (f"{self.value('agreement', rule=rule, **at):.1f}" for rule in rules)
            lines.append([name, f"{typing.value('agreement', **at):.1f}", *others])
        return markdown(["questionnaire", "typing tool", *rules], lines)


class LearningCurves(Results):
    """What 50 more labels would bring: benchmarks/learning_curve.py. Figures are in points and per cent."""

    FIRST_TO_CALIBRATE = 100

    def _cells(self, calibrated_on: bool = False, **where: Any) -> pd.DataFrame:
        """Return the cells with a promise, of draws that measure or of those that chose the constants."""
        frame = self.rows(**where)
        frame = frame[frame["promised"] != ""]
        numbers = ["promised", "low", "high", "gain", "draw"]
        frame = frame.astype(dict.fromkeys(numbers, float))
        return frame[(frame["draw"] >= self.FIRST_TO_CALIBRATE) == calibrated_on]

    def count(self, **where: Any) -> int:
        return len(self._cells(**where))

    def tables(self, **where: Any) -> int:
        return int(self._cells(**where)["table"].nunique())

    def holds(self, **where: Any) -> float:
        """Return in how many cells the true gain lies in the band."""
        cells = self._cells(**where)
        return float(100 * cells["gain"].between(cells["low"], cells["high"]).mean())

    def promised(self, **where: Any) -> float:
        return float(100 * self._cells(**where)["promised"].mean())

    def true(self, **where: Any) -> float:
        return float(100 * self._cells(**where)["gain"].mean())

    def width(self, **where: Any) -> float:
        cells = self._cells(**where)
        return float(100 * (cells["high"] - cells["low"]).mean())

    def off(self, **where: Any) -> float:
        """Return the mean distance of promise and truth."""
        cells = self._cells(**where)
        return float(100 * (cells["promised"] - cells["gain"]).abs().mean())

    def errors(self, labels: int) -> list[float]:
        """Return the root mean squared error of the promise, and that of the mean gain of the other cells."""
        cells = self._cells(labels=labels)
        gain, n = cells["gain"], len(cells)
        by_others = (gain.sum() - gain) / (n - 1)
        return [float(100 * ((each - gain) ** 2).mean() ** 0.5) for each in (cells["promised"], by_others)]

    def cost(self) -> float:
        """Return what the curve adds to the time of the committee of effort "fast"."""
        cells = self._cells().astype({"seconds": float, "curve_seconds": float})
        return float(100 * (cells["curve_seconds"] / cells["seconds"]).median())

    def unpromised(self, **where: Any) -> float:
        """Return the mean gain itself: how far off the promise of no gain would be."""
        return float(100 * self._cells(**where)["gain"].abs().mean())

    def summary(self) -> str:
        """Return promises and truth by the number of labels."""
        rows = []
        for labels in (*SIZES, None):
            where = {} if labels is None else {"labels": labels}
            figures = [f"{value:+.1f}" for value in (self.promised(**where), self.true(**where))]
            figures += [f"{self.off(**where):.1f}", f"{self.width(**where):.1f}", f"{self.holds(**where):.0f} %"]
            rows.append(["all" if labels is None else str(labels), str(self.count(**where)), *figures])
        head = [
            "labels",
            "tables and draws",
            "promised",
            "true",
            "mean distance",
            "width of the band",
            "the band holds in",
        ]
        return markdown(head, rows)


class Promises(Results):
    """How often the interval of a promised accuracy holds in simulations: benchmarks/promises.py."""

    def fits(self) -> int:
        """Return the number of fits of a cell that lacks none."""
        return max(int(float(n)) for n in self.frame["fits"])

    def covered(self) -> list[float]:
        """Return how often the interval holds in each cell, in per cent."""
        return [100 * value for value in self.values("holds")]

    def off(self) -> list[float]:
        """Return the mean of promise minus truth in each cell, in points."""
        return self.values("off")

    def table(self) -> str:  # type: ignore[override]
        sizes, cells = (35, 125, 500, 2500), self.frame.astype({"labels": int})
        words = {"random": "random labels", "quota": "quotas, shares given"}
        rows = [
            [words[how], f"{int(unlabeled):,}"]
            + [f"{100 * float(part.loc[part['labels'] == size, 'holds'].iloc[0]):.0f}" for size in sizes]
            for (how, unlabeled), part in cells.groupby(["how", "unlabeled"], sort=False)
        ]
        return markdown(["labels", "unlabelled rows", *(f"{size:,} labels" for size in sizes)], rows)


class PromisesOfTables(Results):
    """Promised accuracies beside true ones, of committees fitted to real tables: benchmarks/promises.py."""

    def _fits(self, **where: Any) -> pd.DataFrame:
        """Return the fits with a promise."""
        frame = self.rows(**where)
        frame = frame[frame["expected"] != ""].astype({"labels": int})
        return frame.astype(dict.fromkeys(("expected", "low", "high", "accuracy"), float))

    def fits(self, **where: Any) -> int:
        return len(self._fits(**where))

    def covered(self, **where: Any) -> list[float]:
        """Return in how many fits the interval holds, in per cent, with Wilson's interval of 90 %."""
        fits = self._fits(**where)
        inside = fits["accuracy"].between(fits["low"], fits["high"])
        return [float(100 * inside.mean()), *wilson(float(inside.mean()), len(inside))]

    def off(self, **where: Any) -> float:
        """Return the mean of promise minus truth, in points."""
        fits = self._fits(**where)
        return float(100 * (fits["expected"] - fits["accuracy"]).mean())

    def table(self) -> str:  # type: ignore[override]
        rows = []
        named = {"random": "random", "quota": "quotas, shares given"}
        for (effort, how, labels), part in self._fits().groupby(["effort", "how", "labels"]):
            inside = part["accuracy"].between(part["low"], part["high"])
            off = 100 * (part["expected"] - part["accuracy"])
            numbers = (off.abs().mean(), off.mean(), 100 * inside.mean())
            text = [f"{numbers[0]:.1f}", f"{numbers[1]:+.1f}".replace("-", "−"), f"{numbers[2]:.0f}"]
            rows.append([effort, named[how], str(labels), str(len(part)), *text])
        names = ["effort", "labels are", "labels", "fits", "off by", "too high by", "interval holds, %"]
        return markdown(names, sorted(rows, key=lambda row: row[0] != "normal"))


class LocalMinima(Results):
    """Solvers of the TSVM and its global minimum, on problems where that is proven: benchmarks/local_minima.py."""

    PROVEN = 2e-5
    HIT = 0.01  # % above the minimum
    KEY: ClassVar = ["family", "C", "seed"]

    @cached_property
    def problems(self) -> pd.DataFrame:
        frame = self.frame.astype({"objective": float, "error": float, "seconds": float, "C": float})
        exact = frame[frame["method"] == "exact"]
        exact = exact[exact["gap"].astype(float) <= self.PROVEN].rename(columns={"objective": "minimum"})
        frame = frame.merge(exact[[*self.KEY, "minimum"]], on=self.KEY)
        return frame.assign(excess=100 * (frame["objective"] / frame["minimum"] - 1).clip(lower=0))

    def _of(self, method: str, **where: Any) -> pd.DataFrame:
        frame = self.problems[self.problems["method"] == method]
        for column, wanted in where.items():
            frame = frame[frame[column] == wanted]
        if frame.empty:
            raise ValueError(f"{self.path.name} has no {method!r} with {where}")
        return frame

    @property
    def methods(self) -> list[str]:
        """The methods, the exact one last."""
        return sorted(dict.fromkeys(self.frame["method"]), key=lambda name: name == "exact")

    def count(self) -> int:
        return len(self._of("exact"))

    def unproven(self) -> int:
        return len(self.rows(method="exact")) - self.count()

    def found(self, method: str, **where: Any) -> float:
        """Return in how many per cent of the problems a method has the labels of the minimum, or as good ones."""
        return float(100 * (self._of(method, **where)["excess"] < self.HIT).mean())

    def excess(self, method: str, **where: Any) -> float:
        return float(self._of(method, **where)["excess"].mean())

    def error(self, method: str, **where: Any) -> float:
        return float(self._of(method, **where)["error"].mean())

    def lower_and_worse(self, method: str) -> list[int]:
        """Return in how many problems the minimum is lower than a method's, and in how many of these it errs more."""
        both = self._of(method).merge(self._of("exact"), on=self.KEY, suffixes=("", "_exact"))
        both = both[both["excess"] >= self.HIT]
        return [len(both), int((both["error_exact"] > both["error"]).sum())]

    def better_and_worse(self, method: str, than: str) -> list[int]:
        """Return in how many problems a method errs on fewer rows than another, and in how many on more."""
        both = self._of(method).merge(self._of(than), on=self.KEY, suffixes=("", "_other"))
        return [int((both["error"] < both["error_other"]).sum()), int((both["error"] > both["error_other"]).sum())]

    def summary(self) -> str:
        rows = []
        for name in self.methods:
            part = [{"C": C} for C in sorted(self.problems["C"].unique())]
            figures = [" / ".join(f"{self.found(name, **where):.0f}" for where in part)]
            figures += [" / ".join(f"{self.excess(name, **where):.0f}" for where in part)]
            figures += [" / ".join(f"{self.error(name, **where):.1f}" for where in part)]
            rows.append([name, *figures, f"{self._of(name)['seconds'].median():.2f}"])
        head = ["minimum found, %", "above the minimum, %", "error, %", "processor seconds"]
        return markdown(["method", *head], rows)

    def families(self, figure: str) -> str:
        """Return a mean for each kind of problem and method."""
        names = self.methods
        rows = [
            [family, str(len(part) // len(names)), *(f"{part[part['method'] == m][figure].mean():.1f}" for m in names)]
            for family, part in self.problems.groupby("family", sort=False)
        ]
        return markdown(["problems", "number", *names], rows)


class TransductiveSVMs(Results):
    """Test errors of the transductive SVMs on public sets: benchmarks/transductive_svms.py."""

    @cached_property
    def cells(self) -> pd.DataFrame:
        frame = self.frame.astype({"labels": int, "split": int, "C": float, "error": float, "seconds": float})
        whole = frame.groupby(["set", "labels", "split", "C"])["method"].transform("nunique")
        return frame[whole == frame["method"].nunique()]  # splits that all methods have

    @cached_property
    def names(self) -> list[str]:
        return list(dict.fromkeys(self.frame["method"]))

    def splits(self, name: str) -> int:
        return int(self.cells.loc[self.cells["set"] == name, "split"].nunique())

    def by_cost(self, name: str) -> pd.DataFrame:
        return self.cells[self.cells["set"] == name].pivot_table("error", "C", "method")[self.names]

    def best(self, name: str, method: str) -> float:
        return float(self.by_cost(name)[method].min())

    def costs(self, name: str) -> str:
        rows = [[f"{C:g}", *(f"{error:.2f}" for error in line)] for C, line in self.by_cost(name).iterrows()]
        return markdown(["C", *self.names], rows)

    def book(self) -> str:
        rows = []
        for (name, labels), part in self.cells[self.cells["set"] != "g50c"].groupby(["set", "labels"], sort=False):
            errors = part.groupby("method")["error"].mean()
            rows.append([name, str(labels), str(part["split"].nunique()), *(f"{errors[m]:.1f}" for m in self.names)])
        return markdown(["set", "labels", "splits", *self.names], rows)

    def worse(self, method: str, than: str, by: float = 0.0) -> list[int]:
        """Return in how many splits of the book's sets a method errs more than another, and in how many."""
        book = self.cells[self.cells["set"] != "g50c"]
        both = book.pivot_table("error", ["set", "labels", "split"], "method")
        return [int((both[method] > both[than] + by).sum()), len(both)]


READERS = {
    "committee_weights": OtherWeights,
    "local_minima": LocalMinima,
    "transductive_svms": TransductiveSVMs,
    "methods_transductive_svms": MoreTransductiveSVMs,
    "typing": Typing,
    "typing_rules": TypingRules,
    "methods": Methods,
    "deepsep_one_network": Methods,
    "methods_more": MoreMethods,
    "methods_paper": MethodsOfThePaper,
    "methods_gp": MoreMethods,
    "methods_gan": AdversarialNetworks,
    "ssl_book": BookErrors,
    "ssl_book_gp": BookErrors,
    "deepsep_accuracy": Refinement,
    "tsvm_draws": Draws,
    "tsvm_accuracy": Errors,
    "in_context": InContext,
    "committee": Committees,
    "committee_additions": Additions,
    "kept_aside_quoted": KeptAside,
    "small_tables_gains": SmallTables,
    "tables": Tables,
    "demo_draws": DemoDraws,
    "decisions": Decisions,
    "drift": Drift,
    "drift_answers": DriftAnswers,
    "labelling": Labeling,
    "learning_curve": LearningCurves,
    "promises": Promises,
    "promises_tables": PromisesOfTables,
    "unlabelled_curve": UnlabeledCurve,
    "unlabelled_growth": UnlabeledGrowth,
}

FUNCTIONS = (evaluation, evaluation_table, markdown, mean, median, wilson)
BUILT_IN = (abs, all, any, len, list, max, min, range, round, set, sorted, str, sum, zip)

SOURCES: dict[str, Any] = {path.stem: READERS.get(path.stem, Results)(path) for path in RESULTS.glob("*.csv")}
SOURCES |= {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}
SOURCES |= {"study": Study(), "SIZES": SIZES}
SOURCES |= {function.__name__: function for function in FUNCTIONS + BUILT_IN}

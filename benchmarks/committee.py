"""The committee on real tables: its members' predictions are kept, so that every ablation is a sum over them.

    python benchmarks/committee.py run FOLDER --jobs 2       # fits the members: minutes for each table and draw
    python benchmarks/committee.py summary                   # accuracy, calibration error and log loss of every variant
    python benchmarks/committee.py tables                    # the committee beside its best single method, by table

FOLDER holds Parquet files with a `label` column; `tables.py` says how they are split. A cell is one table, number of
labels and draw. Its file in `results/committee/` has the probabilities of the labelled rows by every member out of
fold, and of the unlabelled rows by every member fitted to all labels. Cells whose file exists are not run again, so
that a run can be killed and resumed.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from tables import load, split, table_names

from deepsep import Committee, method
from deepsep.classifiers.committee import MEMBERS
from deepsep.core.mixture import Mixture, fit_mixture
from deepsep.core.probability import log_shift_to_shares, shifted
from deepsep.evaluation.metrics import scores

PLACE = Path(__file__).parent / "results" / "committee"
LABELS = (35, 125, 500)
FIGURES = ("accuracy", "ece", "log_loss")


# -- running -------------------------------------------------------------------------------------------------


def every_member():
    """Return all members that any committee has, whatever the number of labels."""
    return {seat.name: method(seat.method, **seat.settings) for seat in MEMBERS}


def run_cell(folder, place, table, labels, seed):
    """Fit every member to one split, in and out of folds, and keep what they say."""
    warnings.simplefilter("ignore")
    if place.exists():
        return
    X, codes = load(table, folder)
    labelled, unlabelled = split(codes, labels, seed)
    y = np.concatenate([codes[labelled], np.full(len(unlabelled), -1)])
    start = time.perf_counter()
    model = Committee(members=every_member(), n_jobs=1, random_state=seed)
    model.fit(X[np.concatenate([labelled, unlabelled])], y)
    held_out = model.out_of_fold_
    kept = {"truth": codes[unlabelled], "codes": held_out.codes, "rows": held_out.rows, "fold": held_out.fold}
    kept |= {"seconds": time.perf_counter() - start, "repeats": held_out.folds.n_repeats}
    for name, member in model.members_.items():
        kept[f"unseen/{name}"] = held_out.p[name].astype(np.float32)
        kept[f"all/{name}"] = member.label_distributions_[len(labelled) :].astype(np.float16)
    kept["shares"] = model.members_["in-context"].estimated_shares_
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_suffix(f".{os.getpid()}.part.npz")
    np.savez_compressed(part, **kept)
    part.replace(place)


def run(a):
    cells = [
        (table, labels, seed)
        for seed in range(a.first_seed, a.first_seed + a.seeds)
        for labels in map(int, a.labels.split(","))
        for table in table_names(a.folder)
        if table != "digits"
    ]
    todo = [cell for cell in cells if not place_of(*cell).exists()]
    print(f"{len(todo)} of {len(cells)} cells to do", file=sys.stderr)
    jobs = (delayed(run_cell)(a.folder, place_of(*cell), *cell) for cell in todo)
    for i, _ in enumerate(Parallel(a.jobs, return_as="generator_unordered")(jobs), 1):
        print(f"{i}/{len(todo)}", file=sys.stderr, flush=True)


def place_of(table, labels, seed):
    return PLACE / f"{table}-{labels}-{seed}.npz"


# -- what was kept -------------------------------------------------------------------------------------------


@dataclass
class Cell:
    """The predictions of the members in one cell."""

    table: str
    labels: int
    seed: int
    truth: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    unseen: dict[str, np.ndarray]
    all: dict[str, np.ndarray]
    shares: np.ndarray

    @classmethod
    def read(cls, place):
        table, labels, seed = place.stem.rsplit("-", 2)
        with np.load(place) as kept:
            names = [name.removeprefix("all/") for name in kept if name.startswith("all/")]
            unseen = {name: kept[f"unseen/{name}"].astype(float) for name in names}
            everyone = {name: kept[f"all/{name}"].astype(float) for name in names}
            everyone = {name: p / p.sum(1, keepdims=True) for name, p in everyone.items()}
            weight = np.full(len(kept["codes"]), 1 / float(kept["repeats"]))
            return cls(
                table,
                int(labels),
                int(seed),
                kept["truth"],
                kept["codes"],
                weight,
                unseen,
                everyone,
                kept["shares"],
            )

    def mix(self, names, weigh=fit_mixture, **settings):
        """Return the probabilities of the unlabelled rows by a committee of these members."""
        names = [name for name in names if name in self.all]
        unseen, everyone = (np.stack([p[name] for name in names]) for p in (self.unseen, self.all))
        return weigh(unseen, self.codes, self.weight, **settings)(everyone)

    @property
    def members(self):
        """The members that a committee of normal effort has."""
        return [seat.name for seat in MEMBERS if "normal" in seat.efforts and self.labels >= seat.least_labels]


def plain_average(p, codes, weight):
    return Mixture(np.full(len(p), 1 / len(p)))


def without_temperature(p, codes, weight):
    return Mixture(fit_mixture(p, codes, weight).weights)


def adjusted(cell, shares):
    p = cell.mix(cell.members)
    log_p = np.log(np.maximum(p, 1e-30))
    return shifted(p, log_shift_to_shares(log_p, shares, np.ones(len(p))))


def variants():
    """Return functions of a cell to probabilities, by what they are called."""
    every = [seat.name for seat in MEMBERS]
    by_name = {
        "committee": lambda cell: cell.mix(cell.members),
        "fast": lambda cell: cell.mix([seat.name for seat in MEMBERS if "fast" in seat.efforts]),
        "all members always": lambda cell: cell.mix(every),
        "plain average": lambda cell: cell.mix(cell.members, plain_average),
        "no temperature": lambda cell: cell.mix(cell.members, without_temperature),
        "no shrinkage": lambda cell: cell.mix(cell.members, fit_mixture, weight_penalty=1e-3, temperature_penalty=1e-3),
        "known shares": lambda cell: adjusted(
            cell, np.bincount(cell.truth, minlength=len(cell.shares)) / len(cell.truth)
        ),
        "estimated shares": lambda cell: adjusted(cell, cell.shares),
    }
    for penalty in (0.1, 1.0, 3.0):
        by_name[f"weight penalty {penalty:g}"] = lambda cell, penalty=penalty: cell.mix(
            cell.members, fit_mixture, weight_penalty=penalty
        )
    for name in every:
        by_name[f"without {name}"] = lambda cell, name=name: cell.mix([one for one in cell.members if one != name])
        by_name[name] = lambda cell, name=name: cell.all.get(name)
    return by_name


def measured():
    """Return {variant: {(table, labels, seed): figures}}."""
    cells = [Cell.read(place) for place in sorted(PLACE.glob("*.npz")) if ".part" not in place.name]
    figures = {}
    for name, ask in variants().items():
        answers = {(cell.table, cell.labels, cell.seed): (ask(cell), cell.truth) for cell in cells}
        figures[name] = {key: scores(p, truth) for key, (p, truth) in answers.items() if p is not None}
    return figures


def mean_over_tables(cells, labels, figure):
    by_table = {}
    for (table, size, _), figures in cells.items():
        if size == labels:
            by_table.setdefault(table, []).append(figures[figure])
    return float(np.mean([np.mean(values) for values in by_table.values()])) if by_table else np.nan


def summary(a):
    figures = measured()
    sizes = sorted({labels for _, labels, _ in figures["committee"]})
    heads = [f"{figure} {size}" for figure in FIGURES for size in sizes]
    print("| variant | cells | " + " | ".join(heads) + " |\n|" + "---|" * (len(heads) + 2))
    for name, cells in figures.items():
        values = [mean_over_tables(cells, size, figure) for figure in FIGURES for size in sizes]
        shown = [
            f"{v:.3f}" if figure == "log_loss" else f"{100 * v:.1f}"
            for v, figure in zip(values, np.repeat(FIGURES, len(sizes)), strict=True)
        ]
        print(f"| {name} | {len(cells)} | " + " | ".join(shown) + " |")


def tables(a):
    figures = measured()
    keys = sorted(figures["committee"])
    singles = [seat.name for seat in MEMBERS if seat.name in figures]
    print("| table | labels | committee | " + " | ".join(singles) + " |\n|" + "---|" * (len(singles) + 3))
    for table, labels in sorted({key[:2] for key in keys}):
        here = [key for key in keys if key[:2] == (table, labels)]
        row = [
            100 * np.mean([figures[name][key]["accuracy"] for key in here if key in figures[name]])
            for name in ("committee", *singles)
        ]
        print(f"| {table} | {labels} | " + " | ".join(f"{value:.1f}" for value in row) + " |")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(required=True)
    start = commands.add_parser("run")
    start.add_argument("folder")
    start.add_argument("--labels", default=",".join(map(str, LABELS)))
    start.add_argument("--seeds", type=int, default=5)
    start.add_argument("--first-seed", type=int, default=0)
    start.add_argument("--jobs", type=int, default=2)
    start.set_defaults(do=run)
    for name, do in (("summary", summary), ("tables", tables)):
        commands.add_parser(name).set_defaults(do=do)
    a = parser.parse_args(arguments)
    a.do(a)


if __name__ == "__main__":
    main()

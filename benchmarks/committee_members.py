"""What the members of the committee say about real tables, kept so that every mixture of them is a sum over files.

    python benchmarks/committee_members.py FOLDER --members random-forest,deepsep --labels 35,125 --jobs 2
    python benchmarks/committee_members.py FOLDER --how random --first-seed 200     # labels drawn at random, not quotas
    python benchmarks/committee_members.py FOLDER --members deepsep,in-context --alone  # fitted to labelled rows alone

FOLDER holds Parquet files with a `label` column; `tables.py` says how they are split. A cell is one table, number of
labels, draw and member. Its file in `results/committee/` (which is not kept in the repository: 200 MB) has the
probabilities of the labelled rows out of fold, and those of the unlabelled rows after a fit to all labels.
`committee.py` makes the committees. Cells whose file exists are not run again, so that a run can be killed and resumed.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from tables import load, split, table_names

from deepsep import method
from deepsep.classifiers.committee.members import USUAL_MEMBERS
from deepsep.core.labels import Labels, as_labels
from deepsep.errors import LabelError
from deepsep.evaluation.folds import deal_folds
from deepsep.evaluation.out_of_fold import Candidate, FoldFits, fit_copy

PLACE = Path(__file__).parent / "results" / "committee"
LABELS = (35, 125, 500)
N_UNLABELED, FEWEST_UNLABELED = 3000, 1000


@dataclass(frozen=True)
class Cell:
    """A table, and how its labels are drawn and dealt into folds."""

    table: str
    labels: int
    seed: int
    how: str = "quota"  # or "random"
    folds: int = 5
    repeats: int = 1  # how often the labels are dealt into folds
    alone: bool = False  # whether members see the labelled rows alone

    def place(self, member: str) -> Path:
        """Return the file of a member's predictions."""
        kind = f"{self.folds}x{self.repeats}" if self.repeats > 1 else str(self.folds)
        folder = PLACE / (f"{self.how}-{kind}" + "-alone" * self.alone) / member
        return folder / f"{self.table}-{self.labels}-{self.seed}.npz"


def draw(codes, cell):
    """Return (labelled rows, unlabelled rows): the labels fill quotas, or are drawn at random."""
    if cell.how == "quota":
        return split(codes, cell.labels, cell.seed, N_UNLABELED)
    rows = np.random.default_rng(cell.seed).permutation(len(codes))
    return rows[: cell.labels], rows[cell.labels : cell.labels + N_UNLABELED]


def build(member):
    """Return a member that a committee has, or a method of that name."""
    seats = {seat.name: seat for seat in USUAL_MEMBERS}
    return method(seats[member].method, **seats[member].settings) if member in seats else method(member)


def out_of_fold(X, labels, cell, member):
    """Return what a member says about labels held out: nothing where every class has one label."""
    try:
        folds = deal_folds(
            labels, n_splits=cell.folds, n_repeats=cell.repeats, seed=cell.seed, stratified=cell.how == "quota"
        )
    except LabelError:
        return {}
    unseen = FoldFits({member: Candidate(build(member), labeled_only=cell.alone)}, X, labels, folds).fit()
    kept = {"codes": unseen.codes, "rows": unseen.rows, "fold": unseen.fold}
    kept = {name: values.astype(np.int16) for name, values in kept.items()}
    return kept | {"unseen": unseen.p[member].astype(np.float16)}


def run_cell(folder, cell, member):
    """Fit one member to one split, in and out of folds, and keep what it says."""
    warnings.simplefilter("ignore")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    X, codes = load(cell.table, folder)
    labeled, unlabeled = draw(codes, cell)
    X = X[np.concatenate([labeled, unlabeled])]
    labels = as_labels(np.concatenate([codes[labeled], np.full(len(unlabeled), -1)]))
    start = time.perf_counter()
    kept = out_of_fold(X, labels, cell, member)
    n = len(labeled)
    seen = n if cell.alone else len(X)
    model = fit_copy(build(member), X[:seen], Labels(labels.codes[:seen], labels.classes), None, cell.seed)
    kept |= {"truth": codes[unlabeled].astype(np.int16), "classes": labels.classes}
    kept["seconds"] = time.perf_counter() - start
    everyone = model.predict_proba(X[n:]) if cell.alone else model.label_distributions_[n:]
    kept["all"] = everyone.astype(np.float16)
    if hasattr(model, "estimated_shares_"):
        kept |= {"shares": model.estimated_shares_, "interval": model.estimated_shares_interval_}
    place = cell.place(member)
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_suffix(f".{os.getpid()}.part")
    with part.open("wb") as file:
        np.savez_compressed(file, **kept)
    part.replace(place)


def run_or_say(folder, cell, member):
    """Run a cell; return what went wrong, if anything did."""
    try:
        return run_cell(folder, cell, member)
    except Exception:
        return f"{cell} {member}: {traceback.format_exc()}"


def has_rows(folder, table, labels):
    """Whether enough unlabelled rows are left to measure accuracy on."""
    return len(load(table, folder)[1]) - labels >= FEWEST_UNLABELED


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder")
    parser.add_argument("--members", default=",".join(seat.name for seat in USUAL_MEMBERS))
    parser.add_argument("--tables", help="default: all")
    parser.add_argument("--labels", default=",".join(map(str, LABELS)))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--how", choices=["quota", "random"], default="quota")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="leave the unlabelled rows out of every fit")
    parser.add_argument("--jobs", type=int, default=2)
    a = parser.parse_args(arguments)
    names = a.tables.split(",") if a.tables else [name for name in table_names(a.folder) if name != "digits"]
    sizes = [int(size) for size in a.labels.split(",")]
    tasks = [
        (Cell(table, labels, seed, a.how, a.folds, a.repeats, a.alone), member)
        for seed in range(a.first_seed, a.first_seed + a.seeds)
        for labels in sizes
        for table in names
        for member in a.members.split(",")
        if has_rows(a.folder, table, labels)
    ]
    todo = [(cell, member) for cell, member in tasks if not cell.place(member).exists()]
    print(f"{len(todo)} of {len(tasks)} cells to do", file=sys.stderr, flush=True)
    jobs = (delayed(run_or_say)(a.folder, cell, member) for cell, member in todo)
    for i, problem in enumerate(Parallel(a.jobs, return_as="generator_unordered")(jobs), 1):
        print(problem or f"{i}/{len(todo)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

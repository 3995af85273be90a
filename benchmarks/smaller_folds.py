"""Smaller members in a committee's folds: what they cost in log loss, accuracy and the accuracy that is promised.

    python benchmarks/smaller_folds.py fit FOLDER KEPT --tables satimage,letter --labels 125 --seed 11
    python benchmarks/smaller_folds.py measure KEPT      # means over the cells, into results/smaller_folds.csv

FOLDER has tables (Parquet files with a `label` column), KEPT gets the predictions of every member. "before" is a
committee whose members are the same in the folds as outside; labels fill quotas, and 600 unlabelled rows are the test.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from committee import Cell, Committee, _figures
from tables import load, split

from deepsep import method
from deepsep.core.labels import as_labels
from deepsep.core.training_rows import Context, TrainingRows
from deepsep.errors import LabelError
from deepsep.evaluation.folds import deal_folds
from deepsep.evaluation.out_of_fold import Candidate, FoldFits
from deepsep.networks import pool

RESULT = Path(__file__).parent / "results" / "smaller_folds.csv"
FORESTS, IN_CONTEXT = ("random-forest", "extra-trees"), {"in-context": "columns", "in-context-components": "components"}
OTHERS = ("lightgbm-few-labels", "deepsep")
TEST = 600
# Unlabelled rows that the in-context network gets in the folds (None: all that fit) and members of which each is kept.
READ = {"all": (None, 4), "600": (600, 2), "300": (300, 2), "100": (100, 2)}
# What is in the folds: unlabelled rows and members of the in-context networks, trees, and unlabelled rows of DeepSep;
# and at last the members of the two views outside.
VARIANTS = {
    "before": ("all", 4, 500, "all", (4, 4)),
    "2 in-context members": ("all", 2, 500, "all", (4, 4)),
    "1 in-context member": ("all", 1, 500, "all", (4, 4)),
    "2 in-context members, 600 unlabelled rows": ("600", 2, 500, "all", (4, 4)),
    "2 in-context members, 300 unlabelled rows": ("300", 2, 500, "all", (4, 4)),
    "1 in-context member, 300 unlabelled rows": ("300", 1, 500, "all", (4, 4)),
    "2 in-context members, 100 unlabelled rows": ("100", 2, 500, "all", (4, 4)),
    "200 trees": ("all", 4, 200, "all", (4, 4)),
    "DeepSep with 1500 unlabelled rows": ("all", 4, 500, "1500", (4, 4)),
    "DeepSep with 750 unlabelled rows": ("all", 4, 500, "750", (4, 4)),
    "chosen: 2 in-context members, 200 trees, DeepSep with 750": ("all", 2, 200, "750", (4, 4)),
    "the same, 2 members of the components outside": ("all", 2, 200, "750", (4, 2)),
    "the same, 3 members of both outside": ("all", 2, 200, "750", (3, 3)),
    "the same, 2 members of both outside": ("all", 2, 200, "750", (2, 2)),
    "chosen, and 300 unlabelled rows for the in-context members": ("300", 2, 200, "750", (4, 4)),
}


def fit(a):
    """Keep the predictions of every member in one cell."""
    warnings.simplefilter("ignore")
    for name in a.tables.split(","):
        start = time.process_time()
        X, classes = load(name, a.folder)
        labeled, unlabeled = split(classes, a.labels, a.seed)
        X, n = X[np.concatenate([labeled, unlabeled])], len(labeled)
        labels = as_labels(np.concatenate([classes[labeled], np.full(len(unlabeled), -1)]))
        try:
            folds = deal_folds(labels, n_splits=5, seed=0)
        except LabelError:
            continue
        test = X[n : n + TEST]
        candidates = {
            **{f"500/{each}": Candidate(method(each, random_state=0)) for each in FORESTS},
            **{f"200/{each}": Candidate(method(each, random_state=0, n_estimators=200)) for each in FORESTS},
            "lightgbm-few-labels": Candidate(method("lightgbm-few-labels", random_state=0)),
            **{
                f"{most or 'all'}/deepsep": Candidate(method("deepsep", random_state=0), most_unlabeled=most)
                for most in (None, 1500, 750)
            },
        }
        held_out = FoldFits(candidates, X, labels, folds, checked=True).fit()
        kept = {"truth": classes[unlabeled[:TEST]], "codes": held_out.codes, "rows": held_out.rows}
        kept |= {"fold": held_out.fold} | {f"unseen/{each}": p for each, p in held_out.p.items()}
        for each in (*FORESTS, *OTHERS):
            model = method(each, random_state=0)
            kept[f"all/{each}"] = model.fit_rows(_rows(X, labels, np.arange(len(X)))).predict_proba(test)
        for each, view in IN_CONTEXT.items():
            kept[f"all/{each}"] = _by_member(view, _rows(X, labels, np.arange(len(X))), 1000, 4, test)
            for kind, (most, members) in READ.items():
                parts = []
                for held in folds.tests:
                    rows = _rows(X, labels, np.setdiff1d(folds.rows, held))
                    size = 1000 if most is None else len(rows.labeled) + most
                    parts.append(_by_member(view, rows, size, members, X[held]))
                kept[f"unseen/{kind}/{each}"] = np.concatenate(parts, axis=1)
        np.savez(a.kept / f"{name}-{a.labels}-{a.seed}.npz", **kept)
        print(name, a.labels, a.seed, f"{time.process_time() - start:.0f} s", flush=True)


def _rows(X, labels, at):
    return TrainingRows(X[at], labels.codes[at], np.ones(len(at)), labels.classes)


def _by_member(view, rows, context_size, members, asked):
    """Return what each member of an in-context network says of the rows asked about."""
    model = method("in-context", view=view, n_members=members, context_size=context_size, random_state=0)
    model.fit_rows(rows, Context(for_new_rows=True))
    ((_, read),) = model._views().items()
    everyone, memories, said = read._members, read._memories, []
    for member, memory in zip(everyone, memories, strict=True):
        read._members, read._memories = [member], [memory]
        said.append(read.probabilities(model._scale(asked)))
    return np.stack(said)


def measure(a):
    """Write the figures of every variant in every cell, and print their means."""
    lines = []
    for path in sorted(a.kept.glob("*.npz")):
        table, labels, seed = path.stem.rsplit("-", 2)
        with np.load(path) as file:
            kept = dict(file)
        for variant, (read, members, trees, deepsep, outside) in VARIANTS.items():
            unseen = {each: kept[f"unseen/{trees}/{each}"] for each in FORESTS}
            unseen["deepsep"] = kept[f"unseen/{deepsep}/deepsep"]
            unseen |= {each: _mean(kept[f"unseen/{read}/{each}"][:members]) for each in IN_CONTEXT}
            unseen["lightgbm-few-labels"] = kept["unseen/lightgbm-few-labels"]
            everyone = {each: kept[f"all/{each}"] for each in (*FORESTS, *OTHERS)}
            everyone |= {
                each: _mean(kept[f"all/{each}"][:number]) for each, number in zip(IN_CONTEXT, outside, strict=True)
            }
            where = kept["codes"], kept["rows"], kept["fold"], kept["truth"]
            cell = Cell("quota", table, int(labels), int(seed), unseen, everyone, *where)
            committee = Committee(cell, cell.members)
            p, held_out, weight, error = committee.answer()
            expected = committee.expected(p, held_out, weight, error)
            line = {"table": table, "labels": int(labels), "seed": int(seed), "variant": variant}
            line |= _figures(p, cell.truth)
            lines.append(line | {"expected": expected.value, "low": expected.low, "high": expected.high})
    frame = summary(pd.DataFrame(lines))
    frame.to_csv(a.out, index=False, lineterminator="\n")
    print(frame.to_string(index=False))


def summary(frame):
    """Return means over the cells: differences from "before", and how far the promise is off."""
    key = ["table", "labels", "seed"]
    before = frame[frame["variant"] == "before"].set_index(key)
    means = []
    for variant in VARIANTS:
        here = frame[frame["variant"] == variant].set_index(key).loc[before.index]
        loss, truth = here["log_loss"] - before["log_loss"], here["accuracy"]
        inside = (here["low"] <= truth) & (truth <= here["high"])
        line = {"in the folds": variant, "accuracy, points": f"{100 * (truth - before['accuracy']).mean():+.2f}"}
        line |= {"log loss": f"{loss.mean():+.4f}", "its standard error": f"{loss.std() / len(loss) ** 0.5:.4f}"}
        line |= {"promise less truth, points": f"{100 * (here['expected'] - truth).mean():+.1f}"}
        means.append(line | {"interval holds, %": f"{100 * inside.mean():.0f}", "cells": len(here)})
    return pd.DataFrame(means)


def _mean(p):
    return pool(list(p), np.full(len(p), 1 / len(p)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("fit")
    part.add_argument("folder", type=Path)
    part.add_argument("kept", type=Path)
    part.add_argument("--tables", required=True)
    part.add_argument("--labels", type=int, default=125)
    part.add_argument("--seed", type=int, default=11)
    part.set_defaults(run=fit)
    part = parts.add_parser("measure")
    part.add_argument("kept", type=Path)
    part.add_argument("--out", type=Path, default=RESULT)
    part.set_defaults(run=measure)
    a = parser.parse_args()
    a.run(a)


if __name__ == "__main__":
    main()

"""Sets of classes and thresholds on real tables, made of what `committee_members.py` kept; no fit is needed.

    python benchmarks/decisions.py measure       # every promise and what came of it, into results/decisions.csv
    python benchmarks/decisions.py summary       # coverage, set sizes and intervals by number of labels
    python benchmarks/decisions.py scores        # other ways to make sets, on the draws for choosing

A committee promises that a set holds the right class in 90 % of the rows, and how many of the rows above a confidence
are right. Lines of what "sets" and "sets per class" have the coverage promised (level) and found, the same of the worst
class that has 20 rows, the accuracy of the likeliest class, and the mean size; lines of what "accepted" the confidence
(level), the share of the rows above it, and the accuracy expected and found. "quota, known" are quotas with known
shares; in "quota, found" and "random, found", a random sample, the committee finds the shares itself.
"""

import argparse
import csv
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from committee import CHOOSING, FOREST, PLACE, Cell, Committee

from deepsep.errors import LabelError
from deepsep.evaluation.conformal import conformal_sets
from deepsep.evaluation.expected_accuracy import Evidence
from deepsep.scoring.decisions import Decisions

RESULT = Path(__file__).parent / "results" / "decisions.csv"
COVERAGES, CUTS = (0.8, 0.9, 0.95), (0.5, 0.7, 0.8, 0.9)
LEAST_ROWS = 20  # of a class whose coverage is looked at
DRAWS = {"quota, known": ("quota", True), "quota, found": ("quota", False), "random, found": ("random", False)}
COLUMNS = (
    *("draws", "table", "labels", "seed", "what", "level"),
    *("found", "worst", "accuracy", "size", "share", "expected", "low", "high"),
)


def answers(*, choosing):
    """Yield each cell with how its labels were drawn, the probabilities of the unlabelled rows, and the evidence."""
    for draws, (how, priors) in DRAWS.items():
        for place in sorted((PLACE / f"{how}-5" / FOREST).glob("*.npz")):
            cell = Cell.read(how, place.name)
            if (cell.seed in CHOOSING) is choosing and len(cell.codes) and set(cell.members) <= set(cell.all):
                p, held_out, weight, _ = Committee(cell, cell.members, priors=priors).answer()
                yield draws, cell, p, Evidence(held_out, cell.codes, weight, 1)


def holds(sets, truth):
    """Return whether the set of each row holds the right class; it never does for a class without labels."""
    return sets[np.arange(len(sets)), np.maximum(truth, 0)] & (truth >= 0)


def lines_of_sets(p, truth, evidence):
    often = np.flatnonzero(np.bincount(truth[truth >= 0]) >= LEAST_ROWS)
    for coverage, per_class in product(COVERAGES, (False, True)):
        try:
            sets = conformal_sets(evidence, coverage, per_class=per_class)(p)
        except LabelError:  # too few labels of a class
            continue
        held = holds(sets, truth)
        yield {
            "what": "sets per class" if per_class else "sets",
            "level": coverage,
            "found": held.mean(),
            "worst": min(held[truth == k].mean() for k in often),
            "accuracy": (p.argmax(axis=1) == truth).mean(),
            "size": sets.sum(axis=1).mean(),
        }


def lines_of_accepted(p, truth, evidence):
    classes = np.arange(p.shape[1])
    for cut in CUTS:
        decide = Decisions(classes, abstain=cut)
        _, tally = decide.columns(p, None)
        kept = p.max(axis=1) >= cut
        accuracy = decide.describe(tally, evidence)["abstain"]["accuracy"]
        line = {"what": "accepted", "level": cut, "share": kept.mean()}
        if kept.any():
            line["found"] = (p.argmax(axis=1) == truth)[kept].mean()
        if accuracy is not None:
            line |= dict(zip(("low", "high"), accuracy["interval"], strict=True), expected=accuracy["value"])
        yield line


def measure(a):
    with RESULT.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for draws, cell, p, evidence in answers(choosing=False):
            key = {"draws": draws, "table": cell.table, "labels": cell.labels, "seed": cell.seed}
            for lines in (lines_of_sets, lines_of_accepted):
                for line in lines(p, cell.truth, evidence):
                    figures = {name: f"{v:.5f}" for name, v in line.items() if name not in ("what", "level")}
                    writer.writerow({**key, "what": line["what"], "level": line["level"], **figures})


# -- showing -------------------------------------------------------------------------------------------------


def summary(a):
    frame = pd.read_csv(RESULT)
    sets = frame[frame.what.str.startswith("sets")]
    sets = sets.assign(
        off=100 * (sets.found - sets.level), beyond=100 * (sets.found - sets[["level", "accuracy"]].max(axis=1))
    )
    tables = sets.groupby(["draws", "what", "level", "labels", "table"])[["off", "beyond", "worst", "size"]].mean()
    by = tables.groupby(["draws", "what", "level", "labels"])
    figures = {
        "off": ("off", "mean"),
        "beyond": ("beyond", "mean"),  # the accuracy, where it is above the level: sets hold one class at least
        "lowest": ("off", "min"),
        "worst": ("worst", "mean"),  # class
        "tables": ("off", "size"),
        "size": ("size", "mean"),
    }
    print(by.agg(**figures).round(2).to_string())
    rows = frame[(frame.what == "accepted") & frame.expected.notna()]
    rows = rows.assign(inside=(rows.low <= rows.found) & (rows.found <= rows.high), off=rows.expected - rows.found)
    figures = {
        "fits": ("off", "size"),
        "inside": ("inside", "mean"),
        "off": ("off", "mean"),
        "share": ("share", "mean"),
    }
    for keys in (["draws", "labels", "level"], ["draws", "labels"], ["draws"]):
        print(f"\n{rows.groupby(keys).agg(**figures).round(3).to_string()}")


def scores(a):
    """Compare our sets with plain thresholds, and with adaptive and regularised ones; the likeliest class is in all."""
    lines = []
    for draws, cell, p, evidence in answers(choosing=True):
        rng = np.random.default_rng(0)
        u, v = rng.random(len(p)), rng.random(len(evidence.p))
        ways = {
            "probability": (p, evidence.p),
            "adaptive": (1 - _adaptive(p, u), 1 - _adaptive(evidence.p, v)),
            "regularised": (2 - _adaptive(p, u, 0.05), 2 - _adaptive(evidence.p, v, 0.05)),
        }
        made = {name: _sets(new, held_out, evidence) for name, (new, held_out) in ways.items()}
        made["as it is"] = conformal_sets(evidence, 0.9)(p)
        for name, sets in made.items():
            figures = {"off": 100 * (holds(sets, cell.truth).mean() - 0.9), "size": sets.sum(axis=1).mean()}
            lines.append({"draws": draws, "labels": cell.labels, "way": name, **figures})
    print(pd.DataFrame(lines).groupby(["draws", "labels", "way"]).mean().round(3).to_string())


def _sets(new, held_out, evidence):
    """Return sets of the classes whose score, the higher the better, enough held-out rows reach."""
    own = held_out[np.arange(len(evidence.codes)), evidence.codes]
    down = np.argsort(-own)
    enough = evidence.weight[down].cumsum() >= 0.9 * (evidence.weight.sum() + evidence.weight.mean())
    sets = new >= (own[down][enough.argmax()] if enough.any() else -np.inf)
    sets[np.arange(len(new)), new.argmax(axis=1)] = True
    return sets


def _adaptive(p, u, penalty=0.0):
    """Return the probability of all likelier classes and a random part of the own one, plus a penalty per class."""
    order = np.argsort(-p, axis=1)
    down = np.take_along_axis(p, order, axis=1)
    score = down.cumsum(axis=1) - u[:, None] * down + penalty * np.maximum(np.arange(p.shape[1]) - 1, 0)
    result = np.empty_like(p)
    np.put_along_axis(result, order, score, axis=1)
    return result


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(required=True)
    for name, do in (("measure", measure), ("summary", summary), ("scores", scores)):
        commands.add_parser(name).set_defaults(do=do)
    a = parser.parse_args(arguments)
    a.do(a)


if __name__ == "__main__":
    main()

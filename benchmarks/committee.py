"""The committee on real tables, made of what `committee_members.py` kept: accuracy, calibration, intervals, ablations.

    python benchmarks/committee.py measure       # figures of every variant in every cell, into results/committee.csv
    python benchmarks/committee.py baselines     # beside which to read them, into results/committee_baselines.csv
    python benchmarks/committee.py verdicts      # what is said of unlabelled rows, into results/committee_verdicts.csv
    python benchmarks/committee.py summary       # means over tables
    python benchmarks/committee.py tables        # the committee beside single methods, by table
    python benchmarks/committee.py weights OLD   # beside members kept in another folder: results/committee_weights.csv

A variant is a way to weigh the members, or a part of them; none of them needs a fit. Draws of the labels from 100 on
were used to choose settings, and are in no result. "quota" labels are as many of each class, "random" ones a random
sample.
"""

import argparse
import csv
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from committee_members import PLACE, build

from deepsep.classifiers.catalogue import uses_unlabeled
from deepsep.classifiers.committee.members import USUAL_MEMBERS
from deepsep.core.probability import log_shift_to_shares, shifted
from deepsep.evaluation.expected_accuracy import (
    Evidence,
    UnseenClasses,
    expected_accuracy,
    jackknife_error,
    unseen_classes,
)
from deepsep.evaluation.intervals import paired_difference, scores
from deepsep.evaluation.pooling import HeldOutLabels, Mixture, fit_pool
from deepsep.report.outcome import unlabeled_rows

RESULT = Path(__file__).parent / "results" / "committee.csv"
OTHER_FOLDS = ("3", "10", "5x2", "5x3")  # folds, and how often the labels are dealt into them
BASELINES = RESULT.with_name("committee_baselines.csv")
VERDICTS = RESULT.with_name("committee_verdicts.csv")
WEIGHTS = RESULT.with_name("committee_weights.csv")
CHOOSING = range(100, 200)  # draws on which settings were chosen
FIGURES = ("accuracy", "ece", "log_loss")
COLUMNS = (
    "how",
    "table",
    "labels",
    "seed",
    "variant",
    *FIGURES,
    "expected",
    "low",
    "high",
    "plain",
    "plain_low",
    "plain_high",
)
EVERY = tuple(seat.name for seat in USUAL_MEMBERS)
FOREST, BOOSTING, LINE = "random-forest", "lightgbm-few-labels", "logistic-regression"


# -- what was kept -------------------------------------------------------------------------------------------


@dataclass
class Cell:
    """The predictions of the members in one cell.

    Attributes
    ----------
    unseen, all : dict of str to array
        Probabilities of the labelled rows out of fold (empty if none could be held out), and of the unlabelled rows.
    codes, rows, fold : array (m,)
        Of the labelled rows, in the order of ``unseen``.
    truth : array (n,)
        Classes of the unlabelled rows, as columns of the probabilities; -1 for a class without labels.
    """

    how: str
    table: str
    labels: int
    seed: int
    unseen: dict[str, np.ndarray]
    all: dict[str, np.ndarray]
    codes: np.ndarray
    rows: np.ndarray
    fold: np.ndarray
    truth: np.ndarray

    @classmethod
    def read(cls, how, name, kind="5", folder=PLACE):
        """Return the cell with this file name, of all members that have it."""
        table, labels, seed = name.removesuffix(".npz").rsplit("-", 2)
        unseen, everyone = {}, {}
        for place in sorted((folder / f"{how}-{kind}").glob(f"*/{name}")):
            with np.load(place) as kept:
                member, classes = place.parent.name, kept["classes"]
                everyone[member] = _normalised(kept["all"])
                truth = np.where(np.isin(kept["truth"], classes), np.searchsorted(classes, kept["truth"]), -1)
                some = "unseen" in kept
                codes, rows, fold = (
                    kept[part].astype(int) if some else np.zeros(0, int) for part in ("codes", "rows", "fold")
                )
                unseen[member] = _normalised(kept["unseen"]) if some else np.zeros((0, len(classes)))
        return cls(how, table, int(labels), int(seed), unseen, everyone, codes, rows, fold, truth)

    @property
    def repeats(self):
        """How often the labels were dealt into folds."""
        return max(1, len(self.rows) // max(1, len(np.unique(self.rows))))

    @property
    def members(self):
        """The members that a committee of normal effort has."""
        return [seat.name for seat in USUAL_MEMBERS if "normal" in seat.efforts]

    @property
    def true_shares(self):
        """The shares of the classes among the unlabelled rows; no share is zero."""
        c = next(iter(self.all.values())).shape[1]
        count = np.bincount(self.truth[self.truth >= 0], minlength=c) + 1e-3
        return count / count.sum()


def _normalised(p):
    return p.astype(float) / p.astype(float).sum(axis=1, keepdims=True)


# -- committees ----------------------------------------------------------------------------------------------


@dataclass
class Committee:
    """A committee as `deepsep.Committee` makes it, from kept predictions."""

    cell: Cell
    names: list[str]
    priors: bool = False
    usual: bool = True
    by_population: bool = True
    penalty: float = 30.0
    evidence: bool = True
    temperature: bool = True

    def answer(self):
        """Return what it says of unlabelled and of labelled rows, their weights, and the error of its confidence."""
        cell, shares = self.cell, None
        everyone, unseen = (np.stack([p[name] for name in self.names]) for p in (cell.all, cell.unseen))
        weights = {seat.name: seat.weight for seat in USUAL_MEMBERS} if self.usual else {}
        usual = np.array([weights.get(name, 1.0) for name in self.names])
        usual = usual / usual.sum()
        if self.priors:
            shares = cell.true_shares
            everyone, unseen = self._adjusted(everyone, unseen, shares)
        fair = np.ones(len(cell.codes), bool)
        labels = HeldOutLabels(cell.codes, cell.rows, cell.fold, np.ones(len(fair)), fair, cell.repeats)
        if not self.evidence or not len(fair):
            mixture, held_out, weight, others = Mixture(usual), Mixture(usual)(unseen), labels.weigh(shares), []
        else:
            by_quotas = self.by_population and cell.how == "quota"
            estimate = (lambda mixture: mixture(everyone).mean(axis=0)) if by_quotas else None
            pool = fit_pool(unseen, labels, usual=usual, shares=shares, estimate_shares=estimate, penalty=self.penalty)
            mixture, held_out, weight = pool.mixture, pool.held_out, pool.weight
            others = [mixture(everyone[:, ::2]) for mixture in pool.without_folds]
        if not self.temperature:
            mixture = Mixture(mixture.weights)
        p = mixture(everyone)
        if self.priors:
            shift = log_shift_to_shares(np.log(np.maximum(p, 1e-30)), shares, np.ones(len(p)))
            p, held_out, *others = (shifted(each, shift) for each in (p, held_out, *others))
        error = jackknife_error([each.max(axis=1).mean() for each in others], cell.repeats) if others else 0.0
        return p, held_out, weight, error

    def expected(self, p, held_out, weight, error):
        """Return the accuracy that it promises."""
        cell = self.cell
        random = cell.how == "random" and not self.priors
        first = cell.codes[: len(cell.codes) // cell.repeats]
        counts = np.maximum(np.bincount(first, minlength=p.shape[1]), 1)  # classes with one label are never held out
        return expected_accuracy(
            p,
            np.ones(len(p)),
            Evidence(held_out, cell.codes, weight, cell.repeats, unseen_classes(counts) if random else UnseenClasses()),
            confidence_error=error,
        )

    def _adjusted(self, everyone, unseen, shares):
        pairs = []
        for p, own in zip(everyone, unseen, strict=True):
            shift = log_shift_to_shares(np.log(np.maximum(p, 1e-30)), shares, np.ones(len(p)))
            pairs.append((shifted(p, shift), shifted(own, shift)))
        return (np.stack(each) for each in zip(*pairs, strict=True))


def variants():
    """Return functions of a cell to a committee, by their names."""
    by_name = {
        "committee": lambda cell: Committee(cell, cell.members),
        "committee, known shares": lambda cell: Committee(cell, cell.members, priors=True),
        "fast": lambda cell: Committee(cell, [seat.name for seat in USUAL_MEMBERS if "fast" in seat.efforts]),
        "plain average": lambda cell: Committee(cell, cell.members, usual=False, evidence=False),
        "usual weights alone": lambda cell: Committee(cell, cell.members, evidence=False),
        "from equal weights": lambda cell: Committee(cell, cell.members, usual=False),
        "no temperature": lambda cell: Committee(cell, cell.members, temperature=False),
        "no shrinkage": lambda cell: Committee(cell, cell.members, penalty=1e-3),
        "labels as they come": lambda cell: Committee(cell, cell.members, by_population=False),
    }
    for name in EVERY:
        by_name[f"without {name}"] = lambda cell, name=name: Committee(cell, [m for m in cell.members if m != name])
    by_name["without forests"] = lambda cell: Committee(
        cell, [m for m in cell.members if m not in ("random-forest", "extra-trees")]
    )
    by_name["without in-context"] = lambda cell: Committee(cell, [m for m in cell.members if "in-context" not in m])
    return by_name


def measure_cell(cell):
    """Yield a line of figures for every variant and every single member."""
    key = {"how": cell.how, "table": cell.table, "labels": cell.labels, "seed": cell.seed}
    for name, p in cell.all.items():
        yield {**key, "variant": name, **_figures(p, cell.truth)}
    for name, make in variants().items():
        committee = make(cell)
        if name.startswith("without") and committee.names == cell.members:
            continue
        if not set(committee.names) <= set(cell.all):
            continue
        p, held_out, weight, error = committee.answer()
        line = {**key, "variant": name, **_figures(p, cell.truth)}
        if len(cell.codes):
            expected = committee.expected(p, held_out, weight, error)
            line |= {"expected": expected.value, "low": expected.low, "high": expected.high}
            line |= dict(
                zip(("plain", "plain_low", "plain_high"), _share_right(held_out, cell.codes, weight), strict=True)
            )
        yield line


def measure_folds(how, name):
    """Yield a line of figures for every other number of folds, by the members that were fitted in all of them."""
    kinds = [kind for kind in ("5", *OTHER_FOLDS) if any(PLACE.glob(f"{how}-{kind}/*/{name}"))]
    cells = [Cell.read(how, name, kind) for kind in kinds]
    if len(cells) > 1:
        members = [m for m in cells[0].members if all(m in cell.all for cell in cells)]
        for kind, cell in zip(kinds, cells, strict=True):
            committee = Committee(cell, members)
            p, held_out, weight, error = committee.answer()
            expected = committee.expected(p, held_out, weight, error)
            line = {"how": how, "table": cell.table, "labels": cell.labels, "seed": cell.seed}
            line |= {"variant": f"{kind} folds", **_figures(p, cell.truth)}
            yield line | {"expected": expected.value, "low": expected.low, "high": expected.high}


def _figures(p, truth):
    known = truth >= 0  # rows of classes without labels cannot be right
    figures = scores(p[known], truth[known])
    return {"accuracy": figures["accuracy"] * known.mean(), "ece": figures["ece"], "log_loss": figures["log_loss"]}


def _share_right(p, codes, weight):
    """Return the share of held-out labels that are right, with a normal interval of 90 %."""
    share, right = weight / weight.sum(), p.argmax(axis=1) == codes
    mean = share @ right
    half = 1.645 * np.sqrt((share**2) @ (right - mean) ** 2)
    return mean, mean - half, mean + half


def measure(a):
    """Write the figures of all complete cells."""
    with RESULT.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for how in ("quota", "random"):
            for place in sorted((PLACE / f"{how}-5" / FOREST).glob("*.npz")):
                cell = Cell.read(how, place.name)
                if cell.seed in CHOOSING or not set(cell.members) <= set(cell.all):
                    continue
                for line in (*measure_cell(cell), *measure_folds(how, place.name)):
                    writer.writerow({k: f"{v:.5f}" if isinstance(v, float) else v for k, v in line.items()})


def baselines(a):
    """Write how often the most frequent class is right, and a forest that knows the shares: of forests alone."""
    with BASELINES.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("how", "table", "labels", "seed", "variant", *FIGURES))
        for how in ("quota", "random"):
            for place in sorted((PLACE / f"{how}-5" / FOREST).glob("*.npz")):
                cell = Cell.read(how, place.name, folder=PLACE)
                if cell.seed in CHOOSING:
                    continue
                key = (how, cell.table, cell.labels, cell.seed)
                frequent = np.bincount(cell.truth[cell.truth >= 0]).max() / len(cell.truth)
                writer.writerow((*key, "most frequent class", f"{frequent:.5f}", "", ""))
                figures = _figures(_with_shares(cell.all[FOREST], cell.true_shares), cell.truth)
                writer.writerow((*key, f"{FOREST}, known shares", *(f"{value:.5f}" for value in figures.values())))


def _with_shares(p, shares):
    return shifted(p, log_shift_to_shares(np.log(np.maximum(p, 1e-30)), shares, np.ones(len(p))))


def verdicts(a):
    """Write what the report would say of the unlabelled rows, beside how much they gained, in all complete cells."""
    with VERDICTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("how", "table", "labels", "seed", "verdict", "difference", "low", "high", "gain"))
        for how in ("quota", "random"):
            for place in sorted((PLACE / f"{how}-5-alone" / "deepsep").glob("*.npz")):
                cell, alone = (Cell.read(how, place.name, kind) for kind in ("5", "5-alone"))
                learners = {m for m in cell.members if uses_unlabeled(build(m))}
                if set(cell.members) <= set(cell.all) and learners <= set(alone.all) and len(cell.codes):
                    writer.writerow((how, cell.table, cell.labels, cell.seed, *verdict(cell, alone)))


def verdict(cell, alone):
    """Return the word, the difference with its interval, and the true gain."""
    twin = replace(cell, all=cell.all | alone.all, unseen=cell.unseen | alone.unseen)
    right, truly, weights = [], [], []
    for each in (cell, twin):
        p, held_out, weight, _ = Committee(each, each.members).answer()
        right.append(held_out.argmax(axis=1) == each.codes)
        truly.append((p.argmax(axis=1) == each.truth).mean())
        weights.append(weight)
    said = unlabeled_rows(paired_difference(*right, weights[0]) | {"name": "the same"}, True)
    numbers = (said["difference"], *said["interval"], truly[0] - truly[1])
    return said["verdict"], *(f"{number:.5f}" for number in numbers)


def weights(a):
    """Write the figures of the in-context members and their committees beside those with other weights."""
    with WEIGHTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("weights", "how", "table", "labels", "seed", "variant", *FIGURES))
        for how in ("quota", "random"):
            for place in sorted((PLACE / f"{how}-5" / "in-context").glob("*.npz")):
                both = {
                    name: Cell.read(how, place.name, folder=each) for name, each in (("now", PLACE), ("before", a.old))
                }
                if any(cell.seed in CHOOSING or not set(cell.members) <= set(cell.all) for cell in both.values()):
                    continue
                for name, cell in both.items():
                    p = {"committee": Committee(cell, cell.members).answer()[0], **cell.all}
                    for variant in ("committee", "in-context", "in-context-components"):
                        figures = _figures(p[variant], cell.truth).values()
                        key = (name, how, cell.table, cell.labels, cell.seed, variant)
                        writer.writerow((*key, *(f"{value:.5f}" for value in figures)))


# -- showing -------------------------------------------------------------------------------------------------


def means(frame, figure):
    """Return the means over draws and then tables, a column for each number of labels."""
    return frame.pivot_table(index=["variant", "table"], columns="labels", values=figure).groupby("variant").mean()


def summary(a):
    frame = pd.read_csv(RESULT)
    for how, part in frame.groupby("how"):
        draws = (
            part[part.variant == "committee"].groupby("labels").agg(cells=("seed", "size"), draws=("seed", "nunique"))
        )
        print(f"\n{how} labels: {draws.to_dict('index')}\n")
        figures = {figure: means(part, figure) * (1 if figure == "log_loss" else 100) for figure in FIGURES}
        print(
            pd.concat(figures, axis=1)
            .sort_values(("accuracy", part.labels.min()), ascending=False)
            .round(3)
            .to_string()
        )
        for name in ("committee", "committee, known shares"):
            mine = part[(part.variant == name) & part.expected.notna()]
            for kind, low, high in (("expected", "low", "high"), ("plain", "plain_low", "plain_high")):
                inside = (mine[low] <= mine.accuracy) & (mine.accuracy <= mine[high])
                off = 100 * (mine[kind] - mine.accuracy)
                both = pd.DataFrame({"labels": mine.labels, "holds": inside, "off": off.abs(), "bias": off})
                print(f"\n{name}, {kind}\n{both.groupby('labels').mean().round(3).to_string()}")


def tables(a):
    frame = pd.read_csv(RESULT).query("how == 'quota'")
    wide = 100 * frame.pivot_table(index=["labels", "table"], columns="variant", values="accuracy")
    print(wide[["committee", *[name for name in (*EVERY, LINE) if name in wide]]].round(1).to_string())


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(required=True)
    each = {"measure": measure, "baselines": baselines, "verdicts": verdicts, "summary": summary, "tables": tables}
    for name, do in each.items():
        commands.add_parser(name).set_defaults(do=do)
    other = commands.add_parser("weights")
    other.add_argument("old", type=Path)
    other.set_defaults(do=weights)
    a = parser.parse_args(arguments)
    a.do(a)


if __name__ == "__main__":
    main()

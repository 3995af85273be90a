"""Propensities p̂: class probabilities of the unlabelled rows by one-vs-rest TSVMs in a network's embedding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from deepsep.classifiers.deep_separation.training_run import TrainingRun
from deepsep.core.arrays import Array
from deepsep.core.probability import ScoreProbabilities, fit_platt, prior_shift
from deepsep.errors import DataError
from deepsep.solvers.one_vs_rest import Costs, SolverSettings, separate


@dataclass(frozen=True)
class LowDensity:
    """TSVMs of a round."""

    draw: Callable[[np.random.Generator], Array]  # ``draw(rng)`` returns the unlabelled rows that they are trained on
    costs: Callable[[Array], Costs]  # ``costs(drawn)`` returns the objective's costs for these rows
    propensity: Literal["platt", "softmax", "hard"]  # how scores become probabilities
    shares: Array | None  # (c,): shares of the classes in the population, to which the probabilities are corrected
    effort: SolverSettings  # how the problems are solved

    def __call__(self, run: TrainingRun, rng: np.random.Generator) -> Array:
        """Return p̂ of the unlabelled rows and note the objective."""
        rows, network = run.rows, run.network
        drawn, labeled = self.draw(rng), rows.labeled
        codes, weight = rows.codes[labeled], rows.weight[labeled]
        embedded = network.embed(rows.part(np.concatenate([labeled, drawn])))
        if not np.isfinite(embedded).all():
            raise DataError(
                "training diverged: the embedding is no longer finite. Scale the features (standardize=True), or use a "
                "smaller learning_rate."
            )
        if self.effort.algorithm == "cccp":  # its convex problems are solved exactly, which takes double precision
            embedded = embedded.astype(np.float64)
        f0, f1 = embedded[: len(labeled)], embedded[len(labeled) :]
        boundaries = separate(
            f0.copy(),
            codes,
            weight,
            f1.copy(),
            rows.weight[drawn],
            rows.n_classes,
            self.costs(drawn),
            self.effort,
        )
        to_probabilities = ScoreProbabilities(self.propensity)
        if self.propensity == "platt" or (self.propensity == "hard" and self.shares is not None):
            to_probabilities = replace(to_probabilities, platt=fit_platt(boundaries.scores(f0), codes, weight))
        if self.shares is not None:
            log_p = to_probabilities.log_probabilities(boundaries.scores(embedded)[len(labeled) :])
            shift = prior_shift(self.shares, log_p, rows.weight[drawn], codes, weight)
            to_probabilities = replace(to_probabilities, shift=shift)
        propensities = np.empty((len(rows.unlabeled), rows.n_classes), np.float32)
        for at, X in rows.unlabeled_in_chunks():
            propensities[at] = to_probabilities(boundaries.scores(network.embed(X)))
        run.history.add(
            round=run.round,
            phase="tsvm",
            objective=boundaries.objective,
            passes=boundaries.result.n_iter,
            shares=run.shares(propensities.argmax(axis=1)),
            collapsed=boundaries.collapsed.tolist() if rows.n_classes > 2 else [1] * len(boundaries.collapsed),
        )
        return propensities

"""Algorithm 1 of the paper: a network and low-density boundaries that improve each other.

==================  =========================================================================================
in the paper        here
==================  =========================================================================================
D₀, D₁              ``rows.labeled`` and ``rows.unlabeled``
f, g and θ, ψ       ``network.embed``, ``network.predict_proba`` = g ∘ f, and the weights of ``run.network``
h(y), ε             ``smooth_labels``, ``plan.smoothing``
p̂                   ``propensities``
T                   ``plan.rounds``
==================  =========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deepsep.classifiers.deep_separation.training_run import Phase, TrainingRun
from deepsep.core.arrays import Array
from deepsep.core.probability import smooth_labels

Separate = Callable[[TrainingRun, np.random.Generator], Array]


@dataclass(frozen=True)
class Schedule:
    """Number of rounds, and the phases of training in them."""

    rounds: int
    initial: Phase  # on D₀: KL divergence to h(y)
    propensities: Phase  # on D₁: squared error to p̂
    labels: Phase  # on D₀ again
    smoothing: float


def deep_low_density_separation(run: TrainingRun, separate: Separate, plan: Schedule, rng: np.random.Generator) -> None:
    """Train ``run.network`` by Algorithm 1; ``run`` keeps the network of every round.

    ``separate(run, rng)`` returns p̂: the class probabilities of D₁ from boundaries through low density.
    """
    rows = run.rows
    h = smooth_labels(rows.codes[rows.labeled], rows.n_classes, plan.smoothing)  # equation (2)
    run.train(plan.initial, h, rng)  # θ₀, ψ₀
    run.end_round()
    for _ in range(plan.rounds if rows.unlabeled.size else 0):
        propensities = separate(run, rng)  # one-vs-rest TSVMs in f(D₀), f(D₁): equation (1)
        run.train(plan.propensities, propensities, rng)
        run.train(plan.labels, h, rng)  # θₜ, ψₜ
        run.end_round()
        if run.is_done():
            break

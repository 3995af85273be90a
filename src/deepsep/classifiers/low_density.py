"""Propensities p̂: what one-vs-rest TSVMs in a network's embedding make of the unlabelled rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deepsep.classifiers.training_run import CHUNK, GATHERED, TrainingRun
from deepsep.core.mapped_rows import MappedRows
from deepsep.core.probability import ScoreProbabilities, fit_platt, prior_shift
from deepsep.errors import DataError
from deepsep.solvers.one_vs_rest import Costs, Effort, separate
from deepsep.solvers.rows import Rows

Array = NDArray[Any]


@dataclass(frozen=True)
class LowDensity:
    """The TSVMs of a round.

    Attributes
    ----------
    draw : callable
        ``draw(rng)`` returns the unlabelled rows that they are trained on.
    costs : callable
        ``costs(drawn)`` returns the objective's costs for these rows.
    propensity : {"platt", "softmax", "hard"}
        How scores become probabilities.
    shares : array (c,) or None
        Of the classes in the population, to which the probabilities are brought.
    effort : Effort
        How the problems are solved.
    make_rows : callable
        The pass over the rows.
    """

    draw: Callable[[np.random.Generator], Array]
    costs: Callable[[Array], Costs]
    propensity: Literal["platt", "softmax", "hard"]
    shares: Array | None
    effort: Effort
    make_rows: Callable[..., Any] = Rows

    def __call__(self, run: TrainingRun, rng: np.random.Generator) -> Array:
        """Return p̂ of the unlabelled rows and note the objective."""
        rows, network = run.rows, run.network
        drawn, labelled = self.draw(rng), rows.labelled
        codes, weight = rows.codes[labelled], rows.weight[labelled]
        f0, f1 = self._embed(run, labelled, drawn)
        boundaries = separate(
            f0.copy(),
            codes,
            weight,
            f1.copy(),
            rows.weight[drawn],
            rows.n_classes,
            self.costs(drawn),
            self.effort,
            make_rows=self.make_rows,
        )
        to_probabilities = ScoreProbabilities(self.propensity)
        if self.propensity == "platt" or (self.propensity == "hard" and self.shares is not None):
            to_probabilities = replace(to_probabilities, platt=fit_platt(boundaries.scores(f0), codes, weight))
        if self.shares is not None:
            in_file = isinstance(f1, MappedRows)
            scores = boundaries.scores(f1 if in_file else np.concatenate([f0, f1]))[0 if in_file else len(labelled) :]
            log_p = to_probabilities.log_probabilities(scores)
            shift = prior_shift(self.shares, log_p, rows.weight[drawn], codes, weight)
            to_probabilities = replace(to_probabilities, shift=shift)
        propensities = np.empty((len(rows.unlabelled), rows.n_classes), np.float32)
        for at, X in rows.unlabelled_in_chunks():
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

    def _embed(self, run: TrainingRun, labelled: Array, drawn: Array) -> tuple[Array, Any]:
        """Return the embeddings of the rows that the TSVMs are trained on; those of very many go to a file."""
        rows, network = run.rows, run.network
        if isinstance(rows.X, MappedRows) and len(drawn) > GATHERED:
            f0, some = _finite(network.embed(rows.part(labelled))), rows.part(drawn)
            chunks = (_finite(network.embed(some[at : at + CHUNK])) for at in range(0, len(drawn), CHUNK))
            return f0, MappedRows.write(chunks, (len(drawn), f0.shape[1]))
        embedded = _finite(network.embed(rows.part(np.concatenate([labelled, drawn]))))
        if self.effort.algorithm == "cccp":  # its convex problems are solved exactly, which takes double precision
            embedded = embedded.astype(np.float64)
        return embedded[: len(labelled)], embedded[len(labelled) :]


def _finite(embedded: Array) -> Array:
    if not np.isfinite(embedded).all():
        raise DataError(
            "training diverged: the embedding is no longer finite. Scale the features (standardize=True), or use a "
            "smaller learning_rate."
        )
    return embedded

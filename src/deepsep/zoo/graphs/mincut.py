"""Graph min-cut: the labelling that cuts the least of a graph, averaged over random changes of the edges."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.core.arrays import Array
from deepsep.core.training_rows import TrainingRows
from deepsep.zoo.graphs.graph import degrees, distributions, neighbours, one_hot
from deepsep.zoo.graphs.graph_method import GraphMethod


@settings
class GraphMinCut(GraphMethod):
    """Graph min-cut: for each class, the cheapest cut of the graph between its labels and all others.

    Cuts are found as maximum flows (Dinic's algorithm, in scipy). Of all cheapest cuts the one with the fewest rows on
    the side of the class is taken, and the class claims these rows. So two classes never claim the same row. With two
    classes, one flow gives both cuts.

    On graphs of nearest neighbours, the cheapest cut mostly runs around the labelled rows themselves, and claims
    nothing. As Blum and Chawla suggest, edges to labels are therefore weighted differently: each unlabelled row has
    additional edges to the three nearest labelled rows, heavier to closer ones, with ``pull`` times the weight of all
    its other edges. (With 0, nearly all rows remain unclaimed on most real tables.)

    One cut gives no probabilities. So, as in Blum et al. (2004), edges are multiplied ``n_cuts`` times by random
    factors between 1 − ``noise`` and 1 + ``noise``, and a row's probabilities are its votes, plus one vote with the
    shares of the classes among the labels. For each cut a row votes for the class that claims it. If no class does,
    because of ties or cuts that leave it to the others, it votes for the classes of its nearest labels.

    Time grows faster than linearly with the rows: a flow for each class and each cut.

    Parameters
    ----------
    pull : float, default=1.0
        Weight of the edges to the nearest labels, in units of the sum of the row's other edges.
    n_cuts : int, default=10
        Number of cuts, each with other random weights.
    noise : float, default=1.0
        Maximum relative change of a weight, from 0 to 1.
    random_state : int, RandomState or None, default=None
        Draws the weights.

    Attributes
    ----------
    claimed_ : float
        Share of unlabelled rows that a class claimed, over all cuts; the others voted as their nearest labels.

    References
    ----------
    A. Blum, S. Chawla. Learning from labeled and unlabeled data using graph mincuts. ICML 2001.

    A. Blum, J. Lafferty, M. R. Rwebangira, R. Reddy. Semi-supervised learning using randomized mincuts. ICML 2004.

    E. Dahlhaus et al. The complexity of multiterminal cuts. SIAM Journal on Computing, 1994 (isolating cuts).
    """

    method_name = "graph-mincut"
    _saved_values: ClassVar = {"claimed_": float}

    pull: float = real(1.0, at_least=0)
    n_cuts: int = integer(10, 1)
    noise: float = real(1.0, at_least=0, at_most=1)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Array:
        W, labeled, unlabeled = self._graph(rows), rows.labeled, rows.unlabeled
        P = one_hot(rows.codes, rows.n_classes)
        self.claimed_ = 1.0
        if not unlabeled.size:
            return P
        Y = P[labeled]
        own = _nearest_labels(self._rows[unlabeled], self._rows[labeled], Y)
        edges = W[unlabeled]
        # Edges from a row to labels of the same class are cut together, so they are one edge.
        terminal = edges[:, labeled] @ Y + self.pull * degrees(edges)[:, None] * own
        upper = sparse.triu(edges[:, unlabeled], format="csr")
        votes = np.zeros_like(own)
        unclaimed = 0
        for _ in range(self.n_cuts):
            shaken = sparse.csr_array((self._shake(upper.data, rng), upper.indices, upper.indptr), shape=upper.shape)
            claims = class_cuts(sparse.csr_array(shaken + shaken.T), self._shake(terminal, rng))
            free = ~claims.any(axis=1, keepdims=True)
            unclaimed += int(free.sum())
            votes += np.where(free, own, claims)
        self.claimed_ = 1 - unclaimed / (self.n_cuts * len(own))
        P[unlabeled] = (votes + Y.mean(axis=0)) / (self.n_cuts + 1)
        return P

    def _shake(self, weights: Array, rng: np.random.Generator) -> Array:
        return np.asarray(weights * rng.uniform(1 - self.noise, 1 + self.noise, weights.shape))


def _nearest_labels(X: Array, labeled: Array, Y: Array) -> Array:
    """Return class shares among each row's three nearest labels, by distance; much farther labels do not count."""
    distance, index = neighbours(X, 3, labeled)
    ratio = np.minimum(distance / np.maximum(distance[:, :1], 1e-30), 10.0)  # the nearest may be a copy
    return distributions(np.einsum("nk,nkc->nc", np.exp(-(ratio**2)), Y[index]))


def class_cuts(W: sparse.csr_array, terminal: Array) -> Array:
    """Return the rows (n, c) that each class claims: the smallest of the cheapest cuts between it and all others.

    ``W`` has the affinities of the unlabelled rows, ``terminal`` (n, c) those to the labels of each class. No row has
    more than one class.
    """
    if terminal.shape[1] == 2:
        source, sink, _ = cheapest_cut(W, terminal[:, 0], terminal[:, 1])
        return np.column_stack([source, sink])
    total = terminal.sum(axis=1)
    claims = np.column_stack([cheapest_cut(W, t, total - t)[0] for t in terminal.T])
    return np.asarray(claims & (claims.sum(axis=1, keepdims=True) == 1))  # after rounding, two cuts may share a row


def cheapest_cut(W: sparse.csr_array, to_source: Array, to_sink: Array) -> tuple[Array, Array, float]:
    """Return the rows on the side of the source in every cheapest cut, those of the sink, and the weight of the cut.

    Other rows may be on either side. ``to_source`` and ``to_sink`` are the weights of the edges to the terminals.
    """
    n = len(to_source)
    # scipy's flows are 32-bit integers, and the residual of an edge is up to twice its capacity. With 5,000 edges at
    # the labels the relative error is about 1e-5 per edge.
    unit = 2**30 / max(to_source.sum(), to_sink.sum(), W.data.max(initial=0), np.finfo(float).tiny)
    rows = np.arange(n)
    weights = np.concatenate([W.data, to_source, to_sink])
    at = np.concatenate([np.repeat(rows, np.diff(W.indptr)), np.full(n, n), rows])
    to = np.concatenate([W.indices, rows, np.full(n, n + 1)])
    there = weights > 0
    capacity = np.maximum(np.rint(weights[there] * unit), 1).astype(np.int32)
    network = sparse.csr_matrix((capacity, (at[there], to[there])), shape=(n + 2, n + 2))
    result = maximum_flow(network, n, n + 1)
    left = sparse.csr_matrix(network - result.flow)
    left.eliminate_zeros()
    source, sink = np.zeros((2, n + 2), bool)
    source[breadth_first_order(left, n, return_predecessors=False)] = True
    sink[breadth_first_order(sparse.csr_matrix(left.T), n + 1, return_predecessors=False)] = True
    return source[:n], sink[:n], float(result.flow_value / unit)

"""The pass over the rows: everything the Newton method needs to know about the data.

One :meth:`Rows.sweep` reads every row once and returns sums, one entry a problem. Sums over disjoint sets of
rows add up, so a pass can run in chunks, on shards or on another device: whatever offers the methods of
:class:`RowPass` can be given to :func:`deepsep.solvers.newton.minimise`.

Row i of problem k adds ``C_i * loss(f)`` with ``f = w_k . x_i + offset_k``. With t = margin - p f each loss is a
hinge max(0, t), where p = 1 or -1 is the side of the row:

===============  ======  ==========  ==================================================================
rows             margin  p           loss
===============  ======  ==========  ==================================================================
labelled         1       y           H(y f)
unlabelled       1       sign f      H(|f|): not convex, p is read from f in every sweep and never stored
linearised       -1      -sign f     max(0, |f| - 1) - sigma f: Collobert's convex step with fixed signs sigma
===============  ======  ==========  ==================================================================

The augmented Lagrangian replaces max(0, t) by a smooth function with a multiplier a and a stiffness kappa: with
alpha = clip(kappa t + a, 0, 1) it is alpha t - (alpha - a)^2 / (2 kappa). Its slope in t is alpha, and its
curvature is kappa where 0 < alpha < 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[Any]

CHUNK = 4096  # most rows in flight
CHUNK_BYTES = 80_000  # and most of their scores: small enough for the cache, and for malloc to reuse
WIDE = 256  # above this many features the curvature is returned as a factor, not as a matrix


@dataclass
class Factor:
    """The curvature R'R of rows with many features, kept as R = diag(scale) (x - centre)."""

    x: Any  # (j, m) dense or CSR
    scale: Array  # (j,)
    centre: Array | None  # (m,)

    def times(self, v: Array) -> Array:
        """Return R v."""
        shift = 0.0 if self.centre is None else self.centre @ v
        product: Array = self.scale * (self.x @ v - shift)
        return product

    def transposed(self, v: Array) -> Array:
        """Return R'v."""
        scaled = self.scale * v
        product: Array = self.x.T @ scaled
        return product if self.centre is None else product - scaled.sum() * self.centre

    def gram(self, ridge: Array) -> Array:
        """Return R diag(1 / ridge) R'."""
        divided = self.x @ sparse.diags_array(1 / ridge) if sparse.issparse(self.x) else self.x / ridge
        inner = divided @ self.x.T
        if sparse.issparse(inner):
            inner = inner.toarray()
        if self.centre is not None:
            shift = divided @ self.centre
            inner = inner - shift[:, None] - shift + self.centre @ (self.centre / ridge)
        product: Array = self.scale[:, None] * inner * self.scale
        return product


@dataclass
class Sums:
    """Sums over rows, one entry a problem."""

    pull: Array  # (c, m)  sum of C p alpha x; at the optimum it equals the gradient of the penalty
    slack: Array  # (c,)   sum of C (max(0, t) - alpha t) >= 0: the rows' part of the duality gap
    envelope: Array  # (c,)   sum of C times the smoothed loss
    loss: Array  # (c,)   sum of C times the loss
    curvature: list[Array] | list[Factor]  # sum of kappa C x x' over 0 < alpha < 1; a factor for many features


class RowPass(Protocol):
    """What the Newton method asks of the data."""

    n_features: int
    free_bias: bool  # the last column is all ones, and its coefficient is not penalised
    double: bool  # whether sums are in double precision

    def sweep(
        self, w: Array, kappa: Array, problems: Array, commit: Array | None = None, curvature: bool = True
    ) -> Sums:
        """Return the sums at w (one row a problem, which may repeat).

        Where commit > 0, the multipliers are first set to alpha at w with that stiffness.
        """

    def certificate(self, w: Array, kappa: float, problem: int) -> tuple[float, float]:
        """Return the duality gap and the loss of one problem, in double precision."""

    def promote(self) -> None:
        """Sweep in double precision from now on."""


class TransductivePass(RowPass, Protocol):
    """What the TSVM asks of the data: see :class:`Rows` for each method."""

    offset: Array

    def scores(self, w: Array, *, labelled: bool) -> Array:
        """Return f of the labelled or of the unlabelled rows."""

    def decide(self, w: Array, problems: Array) -> Array:
        """Return the signs of the unlabelled rows."""

    def transductive_loss(self, w: Array, problems: Array) -> Array:
        """Return the loss of the TSVM itself."""

    def linearise(self, sigma: Array, problems: Array) -> None:
        """Fix the signs of the unlabelled rows, as Collobert's step does."""


@dataclass
class _Chunk:
    """Some rows, and what the problems make of them."""

    x: Any  # (n, m)
    cost: Array  # (n,)
    f: Array  # (c, n)
    a: Array  # (c, n)
    labels: Array | None  # (c, n); None for unlabelled rows
    home: tuple[Array, slice]  # where the multipliers live


class Rows:
    """Labelled and unlabelled rows in memory, swept in chunks with NumPy.

    Parameters
    ----------
    labelled, unlabelled : arrays or CSR matrices (l, m) and (u, m)
        Rows, float32 or float64, which is also the precision of the sweep.
    signs : array (c, l) of -1 and 1
        The label of each labelled row in each problem.
    cost_labelled, cost_unlabelled : arrays (l,) and (u,)
        C_i, the weight of a row's loss.
    offset : array (c,)
        A constant in every score of a problem.
    free_bias : bool
        Whether to put a column of ones, whose coefficient is not penalised, behind the others.
    s : float in (-1, 0]
        The loss of an unlabelled row with |f| <= -s is the constant 1 + s: it is undecided.
    centre : array (m,), optional
        Subtracted from every row without being stored, so that sparse rows stay sparse.
    """

    def __init__(
        self,
        labelled: Any,
        signs: Array,
        cost_labelled: Array,
        unlabelled: Any,
        cost_unlabelled: Array,
        *,
        offset: Array,
        free_bias: bool = False,
        s: float = 0.0,
        centre: Array | None = None,
    ) -> None:
        dtype = labelled.dtype
        if free_bias:
            labelled, unlabelled = _with_ones(labelled), _with_ones(unlabelled)
            centre = None if centre is None else np.append(centre, 0.0)
        self.centre = centre
        self.n_features = labelled.shape[1]
        self.free_bias = free_bias
        self.double = dtype == np.float64
        self.s = s
        self.offset = offset
        self._dtype = dtype
        self._signs = signs.astype(dtype)
        c = len(signs)
        # Half-way multipliers: the first sweep takes every row near its kink for undecided.
        self._blocks = [
            (labelled, cost_labelled.astype(dtype), np.full((c, labelled.shape[0]), 0.5, dtype)),
            (unlabelled, cost_unlabelled.astype(dtype), np.full((c, unlabelled.shape[0]), 0.5, dtype)),
        ]
        # Collobert's step: sum of C sigma x, of C sigma and of C |sigma|. None: the single loop.
        self._linear: tuple[Array, Array, Array] | None = None

    def scores(self, w: Array, *, labelled: bool) -> Array:
        """Return f of the labelled rows, in double precision, or of the unlabelled ones, in their own: (c, n)."""
        x = self._blocks[0 if labelled else 1][0]
        dtype = np.dtype(np.float64) if labelled else x.dtype
        offset = self.offset if self.centre is None else self.offset - w @ self.centre
        return np.asarray((x.astype(dtype, copy=False) @ w.T.astype(dtype)).T + offset[:, None])

    # -- Collobert's step ----------------------------------------------------------------------------------

    def decide(self, w: Array, problems: Array) -> Array:
        """Return the sign of f for every unlabelled row, 0 where it is undecided: (problems, u) of int8."""
        sigma = np.empty((len(problems), self._blocks[1][0].shape[0]), np.int8)
        for chunk in self._chunks(w, problems, np.float64):
            if chunk.labels is None:
                sigma[:, chunk.home[1]] = np.where(np.abs(chunk.f) > -self.s, np.sign(chunk.f), 0)
        return sigma

    def transductive_loss(self, w: Array, problems: Array) -> Array:
        """Return sum C H(y f) + sum C* min(1 + s, H(|f|)), the loss of the TSVM itself, in double precision."""
        losses = np.zeros(len(problems))
        for chunk in self._chunks(w, problems, np.float64):
            if chunk.labels is not None:
                loss = np.maximum(1 - chunk.labels * chunk.f, 0)
            else:
                loss = np.clip(1 - np.abs(chunk.f), 0, 1 + self.s)
            losses += loss @ chunk.cost
        return losses

    def linearise(self, sigma: Array, problems: Array) -> None:
        """Turn the unlabelled losses of these problems into Collobert's step with signs sigma (0: undecided)."""
        x, cost, multiplier = self._blocks[1]
        if self._linear is None:
            c, m = len(multiplier), self.n_features
            self._linear = (np.zeros((c, m)), np.zeros(c), np.zeros(c))
            multiplier[:] = 0.0  # now signed, in [-1, 1]
        pull, tilt, constant = self._linear
        weighted = sigma * cost.astype(np.float64)
        pull[problems] = 0.0
        for start in range(0, x.shape[0], CHUNK):
            rows = slice(start, start + CHUNK)
            pull[problems] += self._pull(weighted[:, rows], x[rows].astype(np.float64))
        tilt[problems] = weighted.sum(axis=1)
        constant[problems] = np.abs(weighted).sum(axis=1)

    # -- the pass --------------------------------------------------------------------------------------------

    def promote(self) -> None:
        """Go on in double precision."""
        self.double = True
        self._dtype = np.dtype(np.float64)
        self._signs = self._signs.astype(np.float64)
        self._blocks = [(x, cost.astype(np.float64), a.astype(np.float64)) for x, cost, a in self._blocks]

    def sweep(
        self, w: Array, kappa: Array, problems: Array, commit: Array | None = None, curvature: bool = True
    ) -> Sums:
        """Pass over all rows once; see :class:`RowPass`."""
        c, m = w.shape
        pull, slack, misfit, losses = np.zeros((c, m)), np.zeros(c), np.zeros(c), np.zeros(c)
        wide = m > WIDE or self.centre is not None
        matrices = np.zeros((0 if wide or not curvature else c, m, m))
        near: list[list[tuple[Any, Array]]] = [[] for _ in range(c)]
        k = kappa.astype(self._dtype)[:, None]
        for chunk in self._chunks(w, problems, self._dtype):
            x, cost = chunk.x, chunk.cost
            if commit is not None:
                self._commit(chunk, commit, problems)
            t, a, alpha = self._hinge(chunk, k)
            loss = self._loss(chunk, t)
            alpha_t = alpha * t
            shift = alpha - a
            if self.s < 0 and chunk.labels is None and self._linear is None:
                undecided = np.abs(chunk.f) <= -self.s
                for term in (alpha, alpha_t, loss, shift):
                    term[undecided] = 0
                losses += (1 + self.s) * (undecided @ cost)
            losses += loss @ cost
            loss -= alpha_t
            slack += loss @ cost
            if curvature:
                inside = (alpha > 0) & (alpha < 1)
                for i in range(c):
                    rows = inside[i].nonzero()[0]
                    scale = np.sqrt(k[i] * cost[rows])
                    if wide:
                        near[i].append((x[rows], scale))
                    elif rows.size:
                        root = x[rows]
                        root *= scale[:, None]
                        matrices[i] += root.T @ root  # NumPy sees that it is symmetric and does half the work
            shift *= shift
            misfit += shift @ cost
            alpha *= cost
            pull += self._pull(self._sided(chunk, alpha, k), x)
        linear_pull, linear_loss = self._linear_part(w, problems)
        losses += linear_loss
        curves = [self._factor(parts) for parts in near] if wide and curvature else list(matrices)
        return Sums(pull + linear_pull, slack, losses - slack - misfit / (2 * kappa), losses, curves)

    def certificate(self, w: Array, kappa: float, problem: int) -> tuple[float, float]:
        """Return the duality gap and the loss of one problem, in double precision.

        With a free bias, alpha is feasible only if the sum of C p alpha vanishes: alpha is first shrunk on the
        side that is too heavy.
        """
        problems = np.array([problem])
        pulls, alpha_t = np.zeros((2, self.n_features)), np.zeros(2)
        losses = 0.0
        for chunk in self._chunks(w[None], problems, np.float64):
            stiffness = np.full((1, 1), kappa)
            t, _, alpha = self._hinge(chunk, stiffness)
            loss = self._loss(chunk, t)
            if self.s < 0 and chunk.labels is None and self._linear is None:
                undecided = np.abs(chunk.f) <= -self.s
                alpha[undecided] = loss[undecided] = 0
            losses += float((loss @ chunk.cost)[0])
            signed = self._sided(chunk, alpha * chunk.cost, stiffness)
            for side, part in enumerate((np.maximum(signed, 0), np.minimum(signed, 0))):
                pulls[side] += self._pull(part, chunk.x)[0]
                alpha_t[side] += np.abs(part[0]) @ t[0]
        linear_pull, linear_loss = self._linear_part(w[None], problems)
        shrink = np.ones(2)
        penalised = slice(None)
        if self.free_bias:
            penalised = slice(-1)
            excess = pulls[:, -1].sum() + linear_pull[0, -1]
            heavy = 0 if excess > 0 else 1
            if excess != 0:
                weight = abs(pulls[heavy, -1])
                if weight < abs(excess):
                    return np.inf, losses + float(linear_loss[0])
                shrink[heavy] -= abs(excess) / weight
        residual = (w - shrink @ pulls - linear_pull[0])[penalised]
        return losses - float(shrink @ alpha_t) + 0.5 * float(residual @ residual), losses + float(linear_loss[0])

    def _chunks(self, w: Array, problems: Array, dtype: Any) -> Iterator[_Chunk]:
        offset = self.offset[problems]
        if self.centre is not None:
            offset = offset - w @ self.centre
        w_columns, offset = np.ascontiguousarray(w.T, dtype), offset.astype(dtype)[:, None]
        size = max(256, min(CHUNK, CHUNK_BYTES // (len(w) * np.dtype(dtype).itemsize)))
        every = len(problems) == len(self._signs) and bool((problems == np.arange(len(problems))).all())
        for labelled, (x_all, cost, multiplier) in zip((True, False), self._blocks, strict=True):
            for start in range(0, x_all.shape[0], size):
                rows = slice(start, min(start + size, x_all.shape[0]))
                pick: Any = (slice(None), rows) if every else (problems, rows)
                x = x_all[rows].astype(dtype, copy=False)
                f = np.ascontiguousarray((x @ w_columns).T)  # faster than w @ x.T
                f += offset
                labels = self._signs[pick] if labelled else None
                yield _Chunk(x, cost[rows], f, multiplier[pick], labels, (multiplier, rows))

    def _hinge(self, chunk: _Chunk, kappa: Array) -> tuple[Array, Array, Array]:
        """Return t, the multipliers and alpha, all of them for the side that each row is on."""
        f, a = chunk.f, chunk.a
        if chunk.labels is not None:
            t = 1 - chunk.labels * f
        elif self._linear is None:
            t = 1 - np.abs(f)
        else:
            p = self._sided(chunk, np.ones_like(f), kappa)
            t = -1 - p * f
            a = -p * a
        alpha = kappa * t
        alpha += a
        np.clip(alpha, 0, 1, out=alpha)
        return t, a, alpha

    def _sided(self, chunk: _Chunk, alpha: Array, kappa: Array) -> Array:
        """Return p alpha, in place."""
        if chunk.labels is not None:
            alpha *= chunk.labels
            return alpha
        if self._linear is None:
            return np.copysign(alpha, chunk.f, out=alpha)
        np.copysign(alpha, kappa * chunk.f + chunk.a, out=alpha)
        return np.negative(alpha, out=alpha)

    def _loss(self, chunk: _Chunk, t: Array) -> Array:
        outer = chunk.labels is None and self._linear is not None
        return np.asarray(np.maximum(np.abs(chunk.f) - 1 if outer else t, 0))

    def _commit(self, chunk: _Chunk, commit: Array, problems: Array) -> None:
        which = np.flatnonzero(commit)
        kappa = np.maximum(commit, 1e-30).astype(chunk.f.dtype)[:, None]
        _, _, alpha = self._hinge(chunk, kappa)
        if chunk.labels is None and self._linear is not None:
            alpha = -self._sided(chunk, alpha, kappa)
        multiplier, rows = chunk.home
        multiplier[problems[which], rows] = alpha[which]
        chunk.a = multiplier[problems, rows]

    def _linear_part(self, w: Array, problems: Array) -> tuple[Array, Array]:
        if self._linear is None:
            return np.zeros_like(w), np.zeros(len(w))
        pull, tilt, constant = (part[problems] for part in self._linear)
        return pull, constant - self.offset[problems] * tilt - np.sum(w * pull, axis=1)

    def _pull(self, alpha: Array, x: Any) -> Array:
        pull: Array = alpha @ x
        return pull if self.centre is None else pull - alpha.sum(axis=1, keepdims=True) * self.centre

    def _factor(self, parts: list[tuple[Any, Array]]) -> Factor:
        stack = sparse.vstack if sparse.issparse(parts[0][0]) else np.concatenate
        x = stack([x for x, _ in parts])
        return Factor(x, np.concatenate([scale for _, scale in parts]), self.centre)


def _with_ones(x: Any) -> Any:
    """Return x with a column of ones behind it."""
    ones = np.ones((x.shape[0], 1), x.dtype)
    return sparse.hstack([x, ones], format="csr") if sparse.issparse(x) else np.hstack([x, ones])

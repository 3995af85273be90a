"""The pass over the rows, which gives the Newton method everything that it needs to know about the data.

One :meth:`Rows.sweep` reads every row once, in chunks, and returns sums, one entry per problem.

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
from typing import Any

import numpy as np
from scipy import sparse

from deepsep.solvers import Array
from deepsep.solvers.curvature import MAX_MATRIX_FEATURES, Factor, Factors, Matrices


@dataclass
class Sums:
    """Sums over rows, one entry per problem."""

    pull: Array  # (c, m)  sum of C p alpha x; at the optimum it equals the gradient of the penalty
    slack: Array  # (c,)   sum of C (max(0, t) - alpha t) >= 0: the rows' part of the duality gap
    envelope: Array  # (c,)   sum of C times the smoothed loss
    loss: Array  # (c,)   sum of C times the loss
    curvature: list[Array] | list[Factor]  # sum of kappa C x x' over 0 < alpha < 1; a factor for many features


@dataclass
class _Block:
    """The labelled or the unlabelled rows."""

    x: Any  # (n, m)
    cost: Array  # (n,)
    multiplier: Array  # (c, n)
    labels: Array | None  # (c, n); None for unlabelled rows


@dataclass
class _Points:
    """Points at which a pass evaluates problems."""

    w: Array  # (m, c)
    offset: Array  # (c, 1)
    kappa: Array  # (c, 1)
    problems: Any  # (c,); a slice for all problems in their order
    dtype: Any


@dataclass
class _Chunk:
    """Some rows, with their scores and multipliers in all problems."""

    x: Any  # (n, m)
    cost: Array  # (n,)
    f: Array  # (c, n)
    a: Array  # (c, n)
    labels: Any  # (c, n); None for unlabelled rows
    block: _Block
    place: slice  # position of the rows in their block


class Rows:
    """Labelled and unlabelled rows in memory, swept in chunks, in their own precision."""

    def __init__(
        self,
        labeled: Any,  # (l, m), dense or CSR, float32 or float64
        signs: Array,  # (c, l) of -1 and 1: the label of each labelled row in each problem
        cost_labeled: Array,  # (l,)  C_i, the weight of a row's loss
        unlabeled: Any,  # (u, m)
        cost_unlabeled: Array,  # (u,)
        *,
        offset: Array,  # (c,)  a constant in every score of a problem
        free_bias: bool = False,  # whether to append a column of ones, whose coefficient is not penalised
        s: float = 0.0,  # the loss of an unlabelled row with |f| <= -s is the constant 1 + s: it is undecided
        centre: Array | None = None,  # (m,)  subtracted from every row without being stored: sparse rows stay sparse
    ) -> None:
        self.free_bias = free_bias
        self.s = s
        self.offset = offset
        self.centre = np.append(centre, 0.0) if free_bias and centre is not None else centre
        self._dtype = labeled.dtype
        self.blocks = [
            self._block(labeled, cost_labeled, signs, len(signs)),
            self._block(unlabeled, cost_unlabeled, None, len(signs)),
        ]
        self.n_features = int(self.blocks[0].x.shape[1])
        # Collobert's step: sum of C sigma x, of C sigma and of C |sigma|. None: the single loop.
        self._linear: tuple[Array, Array, Array] | None = None

    def _block(self, x: Any, cost: Array, labels: Array | None, c: int) -> _Block:
        if self.free_bias:
            ones = np.ones((x.shape[0], 1), x.dtype)
            x = sparse.hstack([x, ones], format="csr") if sparse.issparse(x) else np.hstack([x, ones])
        return _Block(
            x,
            np.ascontiguousarray(cost, self._dtype),
            # Half-way multipliers: the first sweep treats every row near its kink as undecided.
            np.full((c, x.shape[0]), 0.5, self._dtype),
            None if labels is None else np.ascontiguousarray(labels, self._dtype),
        )

    @property
    def double(self) -> bool:
        """True if the sweeps are in double precision."""
        return bool(self._dtype == np.float64)

    def scores(self, w: Array, *, labeled: bool) -> Array:
        """Return f of the labelled rows, in double precision, or of the unlabelled ones, in their own: (c, n)."""
        x = self.blocks[0 if labeled else 1].x
        dtype = np.float64 if labeled else x.dtype
        offset = self.offset if self.centre is None else self.offset - w @ self.centre
        f = x.astype(dtype, copy=False) @ np.ascontiguousarray(w.T, dtype)
        return np.asarray(f.T + offset[:, None])

    # -- Collobert's step ----------------------------------------------------------------------------------

    def decide(self, w: Array, problems: Array) -> Array:
        """Return the sign of f for every unlabelled row, 0 where it is undecided: (problems, u) of int8."""
        sigma = np.empty((len(problems), self.blocks[1].x.shape[0]), np.int8)
        for chunk in self._chunks(self._points(w, problems), self.blocks[1:]):
            sigma[:, chunk.place] = np.where(abs(chunk.f) > -self.s, np.sign(chunk.f), 0)
        return sigma

    def transductive_loss(self, w: Array, problems: Array) -> Array:
        """Return sum C H(y f) + sum C* min(1 + s, H(|f|)), the loss of the TSVM itself, in double precision."""
        losses = np.zeros(len(problems))
        for chunk in self._chunks(self._points(w, problems), self.blocks):
            if chunk.labels is not None:
                loss = (1 - chunk.labels * chunk.f).clip(0, None)
            else:
                loss = (1 - abs(chunk.f)).clip(0, 1 + self.s)
            losses += loss @ chunk.cost
        return losses

    def linearise(self, sigma: Array, problems: Array) -> None:
        """Turn the unlabelled losses of these problems into Collobert's step with signs sigma (0: undecided)."""
        block = self.blocks[1]
        n, m = block.x.shape
        if self._linear is None:
            c = len(block.multiplier)
            self._linear = (np.zeros((c, m)), np.zeros(c), np.zeros(c))
            block.multiplier[:] = 0.0  # now signed, in [-1, 1]
        weighted = sigma * block.cost.astype(np.float64)
        sums = np.zeros((len(problems), m))
        for place in _places(n, 1, np.float64):
            sums += self._pull(weighted[:, place], block.x[place].astype(np.float64, copy=False))
        pull, tilt, constant = self._linear
        pull[problems], tilt[problems], constant[problems] = sums, weighted.sum(axis=1), abs(weighted).sum(axis=1)

    # -- the pass --------------------------------------------------------------------------------------------

    def promote(self) -> None:
        """Continue in double precision; the rows themselves are converted chunk by chunk."""
        self._dtype = np.dtype(np.float64)
        for block in self.blocks:
            block.cost, block.multiplier = block.cost.astype(np.float64), block.multiplier.astype(np.float64)
            block.labels = None if block.labels is None else block.labels.astype(np.float64)

    def sweep(
        self, w: Array, kappa: Array, problems: Array, commit: Array | None = None, curvature: bool = True
    ) -> Sums:
        """Return the sums at w (one row per problem, which may repeat), in one pass over the rows.

        Where commit > 0, the multipliers are first set to alpha at w with that stiffness.
        """
        c, m = w.shape
        points = self._points(w, problems, kappa, self._dtype)
        update = None if commit is None else self._update(commit, problems)
        pull, loss, slack, misfit = np.zeros((c, m)), *np.zeros((3, c))
        near: Any = None
        if curvature:
            many = m > MAX_MATRIX_FEATURES or self.centre is not None
            near = Factors(points.kappa, self.centre) if many else Matrices(points.kappa, m)
        for chunk in self._chunks(points, self.blocks):
            cost = chunk.cost
            if update is not None:
                self._commit(chunk, points, *update)
            t, a, alpha = self._hinge(chunk, points.kappa)
            hinge = self._loss(chunk, t)
            alpha_t = alpha * t
            shift = alpha - a
            if self._capped(chunk):
                undecided = abs(chunk.f) <= -self.s
                for term in (alpha, alpha_t, hinge, shift):
                    term[undecided] = 0
                loss += (1 + self.s) * (undecided @ cost)
            if near is not None:
                near.add(chunk.x, cost, alpha)
            shift *= shift
            loss += hinge @ cost
            slack += (hinge - alpha_t) @ cost
            misfit += shift @ cost
            alpha *= cost
            pull += self._pull(self._sided(chunk, alpha, points.kappa), chunk.x)
        linear_pull, linear_loss = self._linear_part(w, problems)
        loss = loss + linear_loss
        curves = [] if near is None else near.result()
        return Sums(pull + linear_pull, slack, loss - slack - misfit / (2 * kappa), loss, curves)

    def certificate(self, w: Array, kappa: float, problem: int) -> tuple[float, float]:
        """Return the duality gap and the loss of one problem, in double precision."""
        problems = np.array([problem])
        points = self._points(w[None], problems, np.array([kappa]))
        # Of the rows with p alpha > 0, and of those with p alpha < 0: sum of C p alpha x, and of C alpha t.
        pulls, alpha_t = np.zeros((2, self.n_features)), np.zeros(2)
        total = np.zeros(1)  # of the loss, without the part that is linear in w
        for chunk in self._chunks(points, self.blocks):
            t, _, alpha = self._hinge(chunk, points.kappa)
            hinge = self._loss(chunk, t)
            if self._capped(chunk):
                undecided = abs(chunk.f) <= -self.s
                alpha[undecided] = hinge[undecided] = 0
            total += hinge @ chunk.cost
            signed = self._sided(chunk, alpha * chunk.cost, points.kappa)
            for side, part in enumerate((signed.clip(0, None), signed.clip(None, 0))):
                pulls[side] += self._pull(part, chunk.x)[0]
                alpha_t[side] += abs(part[0]) @ t[0]
        linear_pull, linear_loss = self._linear_part(w[None], problems)
        loss = float(total[0])
        shrink = np.ones(2)  # with a free bias, alpha is only feasible if the sum of C p alpha vanishes
        penalised = slice(None)
        if self.free_bias:
            penalised = slice(-1)
            excess = pulls[:, -1].sum() + linear_pull[0, -1]
            heavy = 0 if excess > 0 else 1
            if excess != 0:
                weight = abs(pulls[heavy, -1])
                if weight < abs(excess):
                    return np.inf, loss + float(linear_loss[0])
                shrink[heavy] -= abs(excess) / weight
        residual = (w - shrink @ pulls - linear_pull[0])[penalised]
        gap = loss - float(shrink @ alpha_t) + 0.5 * float(residual @ residual)
        return gap, loss + float(linear_loss[0])

    def _points(self, w: Array, problems: Array, kappa: Array | None = None, dtype: Any = np.float64) -> _Points:
        kappa = np.ones(len(w)) if kappa is None else kappa
        offset = self.offset[problems] if self.centre is None else self.offset[problems] - w @ self.centre
        every = len(problems) == len(self.offset) and bool((problems == np.arange(len(problems))).all())
        columns, offset, kappa = (np.ascontiguousarray(part, dtype) for part in (w.T, offset[:, None], kappa[:, None]))
        return _Points(columns, offset, kappa, slice(None) if every else problems, dtype)

    def _chunks(self, points: _Points, blocks: list[_Block]) -> Iterator[_Chunk]:
        which, dtype = points.problems, points.dtype
        for block in blocks:
            for place in _places(block.x.shape[0], points.w.shape[1], dtype):
                x, cost = (part[place].astype(dtype, copy=False) for part in (block.x, block.cost))
                labels = None if block.labels is None else block.labels[which, place]
                f = np.ascontiguousarray((x @ points.w).T)  # faster than w'x'
                f += points.offset
                yield _Chunk(x, cost, f, block.multiplier[which, place], labels, block, place)

    def _hinge(self, chunk: _Chunk, kappa: Any) -> tuple[Any, Any, Any]:
        """Return t, the multipliers and alpha, each for the side that a row is on."""
        f, a = chunk.f, chunk.a
        if chunk.labels is not None:
            t = 1 - chunk.labels * f
        elif self._linear is None:
            t = 1 - abs(f)
        else:
            p = self._sided(chunk, np.ones_like(f), kappa)
            t = -1 - p * f
            a = -p * a
        return t, a, (kappa * t + a).clip(0, 1)

    def _sided(self, chunk: _Chunk, alpha: Any, kappa: Any) -> Any:
        """Return p alpha, in place."""
        if chunk.labels is not None:
            alpha *= chunk.labels
            return alpha
        if self._linear is None:
            return np.copysign(alpha, chunk.f, out=alpha)
        np.copysign(alpha, kappa * chunk.f + chunk.a, out=alpha)
        return np.negative(alpha, out=alpha)

    def _capped(self, chunk: _Chunk) -> bool:
        """Return whether the loss of the rows is constant around f = 0."""
        return self.s < 0 and chunk.labels is None and self._linear is None

    def _loss(self, chunk: _Chunk, t: Any) -> Any:
        outer = chunk.labels is None and self._linear is not None
        return (abs(chunk.f) - 1 if outer else t).clip(0, None)

    def _update(self, commit: Array, problems: Array) -> tuple[Any, Any, Any]:
        """Return the points that set multipliers, the problems of these points, and the stiffness."""
        which = np.flatnonzero(commit)
        return which, problems[which], np.maximum(commit, 1e-30)[:, None].astype(self._dtype)

    def _commit(self, chunk: _Chunk, points: _Points, which: Any, problems: Any, kappa: Any) -> None:
        _, _, alpha = self._hinge(chunk, kappa)
        if chunk.labels is None and self._linear is not None:
            alpha = -self._sided(chunk, alpha, kappa)
        multiplier = chunk.block.multiplier
        multiplier[problems, chunk.place] = alpha[which]
        chunk.a = multiplier[points.problems, chunk.place]

    def _linear_part(self, w: Array, problems: Array) -> tuple[Array, Array]:
        if self._linear is None:
            return np.zeros_like(w), np.zeros(len(w))
        pull, tilt, constant = (part[problems] for part in self._linear)
        return pull, constant - self.offset[problems] * tilt - np.sum(w * pull, axis=1)

    def _pull(self, alpha: Array, x: Any) -> Array:
        pull: Array = alpha @ x
        return pull if self.centre is None else pull - alpha.sum(axis=1, keepdims=True) * self.centre


def _places(n: int, c: int, dtype: Any) -> Iterator[slice]:
    """Yield slices of at most 4,096 rows whose scores, 80 kB, fit into the cache and are reused by malloc."""
    size = max(256, min(4096, 80_000 // (c * np.dtype(dtype).itemsize)))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))

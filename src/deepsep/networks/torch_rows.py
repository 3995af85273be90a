"""The TSVM's pass over the rows with torch, for rows that are on a GPU already or are worth bringing there.

:class:`TorchRows` does what ``Rows`` of :mod:`deepsep.solvers` does, whose module documents the mathematics, and can
stand in its place. Rows and multipliers stay on the device: a sweep sends w and receives sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepsep.errors import ParameterError

Array = NDArray[Any]

CHUNK = {"cuda": 2**28}  # numbers in flight at a time; the largest intermediate has one per row, problem and feature
CHUNK_ELSEWHERE = 2**22
SPLIT = 1024  # rows whose products are summed in the precision of the rows; these sums are added in double precision
SELECT = 2**25  # the size of that intermediate above which it is worth a wait to leave out rows without curvature
FEW = 20_000  # rows that a CPU has swept before a GPU has launched its kernels

_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass
class Sums:
    """Sums over rows, one entry a problem, in double precision."""

    pull: Array  # (c, m)
    slack: Array  # (c,)
    envelope: Array  # (c,)
    loss: Array  # (c,)
    curvature: list[Array]  # c matrices (m, m); none if they were not asked for


@dataclass
class _Block:
    """The labelled or the unlabelled rows."""

    x: Tensor  # (n, m)
    cost: Tensor  # (n,)
    multiplier: Tensor  # (c, n)
    labels: Tensor | None  # (c, n); None for unlabelled rows


@dataclass
class _Points:
    """Where to evaluate the problems, on the device."""

    w: Tensor  # (c, m)
    offset: Tensor  # (c, 1)
    kappa: Tensor  # (c, 1)
    problems: Tensor | None  # (c,); None for every problem in its order


@dataclass
class _Chunk:
    """Some rows, and what the problems make of them."""

    x: Tensor  # (n, m)
    cost: Tensor  # (n,)
    f: Tensor  # (c, n)
    a: Tensor  # (c, n)
    labels: Tensor | None  # (c, n); None for unlabelled rows
    home: Tensor  # (all problems, n): where the multipliers live
    place: slice  # where the rows stand in their block


def _exactly(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Run without gradients, and with products in full precision, whatever is in force elsewhere.

    Scores in TF32 are wrong in their fourth digit. The certificate would notice, and all that follows be done in double
    precision.
    """

    @wraps(method)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        matmul: Any = torch.backends.cuda.matmul
        # torch 2.9 renamed the setting, and complains of code that uses both names.
        name, exact = ("fp32_precision", "ieee") if hasattr(matmul, "fp32_precision") else ("allow_tf32", False)
        before = getattr(matmul, name)
        if before != exact:
            setattr(matmul, name, exact)
        try:
            with torch.no_grad():
                return method(*args, **kwargs)
        finally:
            if before != exact:
                setattr(matmul, name, before)

    return run


class TorchRows:
    """Labelled and unlabelled rows on a device, swept in large chunks with torch.

    Parameters
    ----------
    labelled, unlabelled : tensors or arrays (l, m) and (u, m)
        Rows, float32 or float64, which is also the precision of the sweep. Tensors that are on the device are used as
        they are.
    signs : array (c, l) of -1 and 1
        The label of each labelled row in each problem.
    cost_labelled, cost_unlabelled : tensors or arrays (l,) and (u,)
        C_i, the weight of a row's loss.
    offset : array (c,)
        A constant in every score of a problem.
    free_bias : bool
        Whether to put a column of ones, whose coefficient is not penalised, behind the others.
    s : float in (-1, 0]
        The loss of an unlabelled row with |f| <= -s is the constant 1 + s: it is undecided.
    centre : None
        Rows must be centred already.
    device : torch.device or str, optional
        By default the device of the rows, and the CPU for arrays. It must know double precision, which Apple's does
        not.
    """

    @_exactly
    def __init__(
        self,
        labelled: Any,
        signs: Array,
        cost_labelled: Any,
        unlabelled: Any,
        cost_unlabelled: Any,
        *,
        offset: Array,
        free_bias: bool = False,
        s: float = 0.0,
        centre: None = None,
        device: torch.device | str | None = None,
    ) -> None:
        if centre is not None:
            raise ParameterError("rows on a device must be dense and centred: centre must be None.")
        if device is None:
            device = next((x.device for x in (unlabelled, labelled) if isinstance(x, Tensor)), "cpu")
        self.device = torch.device(device)
        double = torch.float64 if isinstance(labelled, Tensor) else np.float64
        self._dtype = torch.float64 if labelled.dtype == double else torch.float32
        self.free_bias = free_bias
        self.double = self._dtype == torch.float64
        self.s = s
        self.offset = offset
        c = len(signs)

        def block(x: Any, cost: Any, labels: Any) -> _Block:
            x = self._tensor(x)
            if free_bias:
                x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
            # Half-way multipliers: the first sweep takes every row near its kink for undecided.
            return _Block(x.contiguous(), self._tensor(cost), x.new_full((c, len(x)), 0.5), labels)

        self._blocks = [
            block(labelled, cost_labelled, self._tensor(signs)),
            block(unlabelled, cost_unlabelled, None),
        ]
        self.n_features = int(self._blocks[0].x.shape[1])
        # Collobert's step: sum of C sigma x, of C sigma and of C |sigma|. None: the single loop.
        self._linear: tuple[Array, Array, Array] | None = None

    @_exactly
    def scores(self, w: Array, *, labelled: bool) -> Array:
        """Return f of the labelled rows, in double precision, or of the unlabelled ones, in their own: (c, n)."""
        block = self._blocks[0 if labelled else 1]
        dtype = torch.float64 if labelled else block.x.dtype
        points = self._points(w, np.ones(len(w)), np.arange(len(w)), dtype)
        parts = [chunk.f.cpu() for chunk in self._chunks(points, [block])]
        return np.concatenate([part.numpy() for part in parts], axis=1) if parts else np.zeros((len(w), 0))

    # -- Collobert's step ----------------------------------------------------------------------------------

    @_exactly
    def decide(self, w: Array, problems: Array) -> Array:
        """Return the sign of f for every unlabelled row, 0 where it is undecided: (problems, u) of int8."""
        sigma = torch.empty((len(problems), len(self._blocks[1].x)), dtype=torch.int8, device=self.device)
        for chunk in self._chunks(self._points(w, np.ones(len(w)), problems, torch.float64), self._blocks[1:]):
            sigma[:, chunk.place] = torch.where(chunk.f.abs() > -self.s, chunk.f.sign(), 0).to(torch.int8)
        return np.asarray(sigma.cpu().numpy())

    @_exactly
    def transductive_loss(self, w: Array, problems: Array) -> Array:
        """Return sum C H(y f) + sum C* min(1 + s, H(|f|)), the loss of the TSVM itself, in double precision."""
        losses = torch.zeros(len(problems), dtype=torch.float64, device=self.device)
        for chunk in self._chunks(self._points(w, np.ones(len(w)), problems, torch.float64), self._blocks):
            if chunk.labels is not None:
                loss = (1 - chunk.labels * chunk.f).clamp(min=0)
            else:
                loss = (1 - chunk.f.abs()).clamp(0, 1 + self.s)
            losses += loss @ chunk.cost
        return np.asarray(losses.cpu().numpy())

    @_exactly
    def linearise(self, sigma: Array, problems: Array) -> None:
        """Turn the unlabelled losses of these problems into Collobert's step with signs sigma (0: undecided)."""
        block = self._blocks[1]
        c, m = len(block.multiplier), self.n_features
        if self._linear is None:
            self._linear = (np.zeros((c, m)), np.zeros(c), np.zeros(c))
            block.multiplier.zero_()  # now signed, in [-1, 1]
        signs = torch.from_numpy(np.ascontiguousarray(sigma)).to(self.device)
        sums = torch.zeros((len(problems), m + 2), dtype=torch.float64, device=self.device)
        for place in self._places(len(block.x), len(problems)):
            weighted = signs[:, place] * block.cost[place].double()
            sums[:, :m] += _products(weighted.T, block.x[place].double())
            sums[:, m] += weighted.sum(dim=1)
            sums[:, m + 1] += weighted.abs().sum(dim=1)
        packed = sums.cpu().numpy()
        pull, tilt, constant = self._linear
        pull[problems], tilt[problems], constant[problems] = packed[:, :m], packed[:, m], packed[:, m + 1]

    # -- the pass --------------------------------------------------------------------------------------------

    @_exactly
    def promote(self) -> None:
        """Sweep in double precision from now on; the rows themselves are converted chunk by chunk."""
        self.double, self._dtype = True, torch.float64
        for block in self._blocks:
            block.cost, block.multiplier = block.cost.double(), block.multiplier.double()
            if block.labels is not None:
                block.labels = block.labels.double()

    @_exactly
    def sweep(
        self, w: Array, kappa: Array, problems: Array, commit: Array | None = None, curvature: bool = True
    ) -> Sums:
        """Return the sums at w (one row a problem, which may repeat).

        Where commit > 0, the multipliers are first set to alpha at w with that stiffness.
        """
        c, m = w.shape
        points = self._points(w, kappa, problems, self._dtype)
        # Views of one tensor, so that one copy brings all back: loss, slack and misfit, the pull, the curvature.
        sizes = [3, m, m * m if curvature else 0]
        sums = torch.zeros((c, sum(sizes)), dtype=torch.float64, device=self.device)
        scalars, pull, matrices = torch.split(sums, sizes, dim=1)
        committed = None if commit is None else self._committed(commit, problems)
        for chunk in self._chunks(points, self._blocks):
            if committed is not None:
                self._commit(chunk, points, *committed)
            t, a, alpha = self._hinge(chunk, points.kappa)
            terms = t.new_empty((3, *t.shape))
            torch.clamp((chunk.f.abs() - 1) if self._outer(chunk) else t, min=0, out=terms[0])
            torch.addcmul(terms[0], alpha, t, value=-1, out=terms[1])
            torch.sub(alpha, a, out=terms[2])
            terms[2].square_()
            if self._capped(chunk):
                undecided = chunk.f.abs() <= -self.s
                alpha.masked_fill_(undecided, 0)
                terms.masked_fill_(undecided, 0)
                terms[0].masked_fill_(undecided, 1 + self.s)
            # As a product, since torch first copies what it is to sum in another precision.
            scalars += _products(terms.flatten(0, 1).T, chunk.cost[:, None]).view(3, c).T
            if curvature:
                matrices += self._curvature(chunk, alpha)
            pull += _products(self._sided(chunk, alpha, points.kappa).mul_(chunk.cost).T, chunk.x)
        packed = sums.cpu().numpy()
        linear_pull, linear_loss = self._linear_part(w, problems)
        loss, slack, misfit = packed[:, 0] + linear_loss, packed[:, 1], packed[:, 2]
        curves = list(kappa[:, None, None] * packed[:, 3 + m :].reshape(c, m, m)) if curvature else []
        return Sums(packed[:, 3 : 3 + m] + linear_pull, slack, loss - slack - misfit / (2 * kappa), loss, curves)

    @_exactly
    def certificate(self, w: Array, kappa: float, problem: int) -> tuple[float, float]:
        """Return the duality gap and the loss of one problem, in double precision.

        With a free bias, alpha is feasible only if the sum of C p alpha vanishes: alpha is first shrunk on the side
        that is too heavy.
        """
        m, problems = self.n_features, np.array([problem])
        points = self._points(w[None], np.array([kappa]), problems, torch.float64)
        # For the positive and the negative side: the pull, the sum of C alpha t, and half of the loss.
        sums = torch.zeros((2, m + 2), dtype=torch.float64, device=self.device)
        for chunk in self._chunks(points, self._blocks):
            t, _, alpha = self._hinge(chunk, points.kappa)
            loss = (chunk.f.abs() - 1 if self._outer(chunk) else t).clamp(min=0)
            if self._capped(chunk):
                undecided = chunk.f.abs() <= -self.s
                alpha.masked_fill_(undecided, 0)
                loss.masked_fill_(undecided, 0)
            signed = self._sided(chunk, alpha, points.kappa).mul_(chunk.cost)
            sides = torch.cat([signed.clamp(min=0), signed.clamp(max=0)])
            sums[:, :m] += _products(sides.T, chunk.x)
            sums[:, m] += sides.abs() @ t[0]
            sums[:, m + 1] += 0.5 * (loss @ chunk.cost)
        packed = sums.cpu().numpy()
        pulls, alpha_t, losses = packed[:, :m], packed[:, m], float(packed[:, m + 1].sum())
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

    def _tensor(self, values: Any) -> Tensor:
        """Return values on the device, in the precision of the sweep: themselves, where they are that already."""
        if not isinstance(values, Tensor):
            # Converted before they travel. torch warns of arrays that are not writable, such as a memory map.
            values = torch.from_numpy(
                np.require(values, np.float64 if self._dtype == torch.float64 else np.float32, ["C", "W"])
            )
        there: Tensor = values.detach().to(self.device, self._dtype)
        return there

    def _points(self, w: Array, kappa: Array, problems: Array, dtype: torch.dtype) -> _Points:
        """Send what a pass depends on, all at once."""
        m = w.shape[1]
        c = len(self._blocks[0].multiplier)
        every = len(problems) == c and bool((problems == np.arange(c)).all())
        packed = torch.from_numpy(np.column_stack([w, self.offset[problems], kappa, problems])).to(self.device)
        values = packed.to(dtype)
        which = None if every else packed[:, m + 2].long()
        return _Points(values[:, :m], values[:, m : m + 1], values[:, m + 1 : m + 2], which)

    def _places(self, n: int, c: int) -> Iterator[slice]:
        """Yield slices of n rows, each of them a multiple of SPLIT apart from the last."""
        numbers = CHUNK.get(self.device.type, CHUNK_ELSEWHERE)
        size = max(1, numbers // (c * self.n_features * SPLIT)) * SPLIT
        for start in range(0, n, size):
            yield slice(start, min(start + size, n))

    def _chunks(self, points: _Points, blocks: list[_Block]) -> Iterator[_Chunk]:
        dtype = points.w.dtype
        for block in blocks:
            for place in self._places(len(block.x), len(points.w)):
                x = block.x[place].to(dtype)
                f = torch.addmm(points.offset, points.w, x.T)
                home, labels = block.multiplier[:, place], block.labels
                a = home
                if labels is not None:
                    labels = labels[:, place]
                if points.problems is not None:
                    a = a.index_select(0, points.problems)
                    labels = None if labels is None else labels.index_select(0, points.problems)
                cost = block.cost[place].to(dtype)
                yield _Chunk(x, cost, f, a.to(dtype), None if labels is None else labels.to(dtype), home, place)

    def _outer(self, chunk: _Chunk) -> bool:
        """Whether the rows have the losses of Collobert's step."""
        return chunk.labels is None and self._linear is not None

    def _capped(self, chunk: _Chunk) -> bool:
        """Whether the loss of the rows is constant around f = 0."""
        return self.s < 0 and chunk.labels is None and self._linear is None

    def _hinge(self, chunk: _Chunk, kappa: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return t, the multipliers and alpha, all of them for the side that each row is on."""
        f, a = chunk.f, chunk.a
        if chunk.labels is not None:
            t = torch.rsub(chunk.labels * f, 1)
        elif self._linear is None:
            t = torch.rsub(f.abs(), 1)
        else:
            minus_p = torch.copysign(torch.ones_like(f), torch.addcmul(a, kappa, f))
            t = minus_p * f - 1
            a = minus_p * a
        return t, a, torch.addcmul(a, kappa, t).clamp_(0, 1)

    def _sided(self, chunk: _Chunk, alpha: Tensor, kappa: Tensor) -> Tensor:
        """Return p alpha."""
        if chunk.labels is not None:
            return alpha * chunk.labels
        if self._linear is None:
            return torch.copysign(alpha, chunk.f)
        return torch.copysign(alpha, torch.addcmul(chunk.a, kappa, chunk.f)).neg_()

    def _committed(self, commit: Array, problems: Array) -> tuple[Tensor, Tensor, Tensor]:
        """Return which points update their multipliers, those of which problems, and with which stiffness."""
        which = np.flatnonzero(commit)
        packed = torch.from_numpy(np.stack([which, problems[which]])).to(self.device)
        stiffness = torch.from_numpy(np.maximum(commit, 1e-30)[:, None]).to(self.device, self._dtype)
        return packed[0], packed[1], stiffness

    def _commit(self, chunk: _Chunk, points: _Points, which: Tensor, problems: Tensor, stiffness: Tensor) -> None:
        _, _, alpha = self._hinge(chunk, stiffness)
        if self._outer(chunk):
            alpha = self._sided(chunk, alpha, stiffness).neg_()
        chunk.home.index_copy_(0, problems, alpha.index_select(0, which))
        chunk.a = chunk.home if points.problems is None else chunk.home.index_select(0, points.problems)

    def _curvature(self, chunk: _Chunk, alpha: Tensor) -> Tensor:
        """Return the sum of C x x' over 0 < alpha < 1, flat, of every problem; the stiffness is left out."""
        c, m = len(alpha), self.n_features
        x, inside = chunk.x, alpha.frac() != 0  # alpha is between 0 and 1
        weight = inside * chunk.cost
        if weight.numel() * m > SELECT:
            # Asking for the number of rows waits for the device, but most rows are far from every kink.
            rows = inside.any(dim=0).nonzero().squeeze(1)
            x, weight = x.index_select(0, rows), weight.index_select(1, rows)
        # The problems side by side make one product out of many small ones.
        weighted = (weight.T.unsqueeze(2) * x.unsqueeze(1)).flatten(1)
        return _products(weighted, x).view(c, m * m)

    def _linear_part(self, w: Array, problems: Array) -> tuple[Array, Array]:
        if self._linear is None:
            return np.zeros_like(w), np.zeros(len(w))
        pull, tilt, constant = (part[problems] for part in self._linear)
        return pull, constant - self.offset[problems] * tilt - np.sum(w * pull, axis=1)


def _products(left: Tensor, right: Tensor) -> Tensor:
    """Return left' right in double precision: the sum over rows, of which SPLIT at a time are summed in their own."""
    n, whole = len(right), len(right) // SPLIT * SPLIT
    if not whole:
        return (left.T @ right).double()
    left_pieces, right_pieces = (side[:whole].view(-1, SPLIT, side.shape[1]) for side in (left, right))
    total = torch.bmm(left_pieces.transpose(1, 2), right_pieces).sum(dim=0, dtype=torch.float64)
    return total if whole == n else total.add_(left[whole:].T @ right[whole:])


def rows_by_size(few: Callable[..., Any], *, device: torch.device | str | None = None) -> Callable[..., Any]:
    """Return a maker of passes: :class:`TorchRows`, or for few rows a pass over arrays on the host.

    The start of a TSVM, from the labelled rows and from a sample of the others, has too few rows for a GPU.

    Parameters
    ----------
    few : callable
        The pass for few rows: ``Rows`` of :mod:`deepsep.solvers`, or one that is called in the same way.
    device : torch.device or str, optional
        The device for many rows; by default that of the rows.
    """

    def make(labelled: Any, signs: Array, cost: Any, unlabelled: Any, cost_unlabelled: Any, **rest: Any) -> Any:
        if labelled.shape[0] + unlabelled.shape[0] > FEW:
            return TorchRows(labelled, signs, cost, unlabelled, cost_unlabelled, device=device, **rest)
        return few(_host(labelled), signs, _host(cost), _host(unlabelled), _host(cost_unlabelled), **rest)

    return make


def _host(values: Any) -> Array:
    return np.asarray(values.detach().cpu().numpy() if isinstance(values, Tensor) else values)

"""The average of networks for rows whose features are mostly 0 or 1: categories that became one feature per level.

All but one of the features of a category are 0, and the first layer need not multiply them. They add the same to it for
all rows on the same grid, except for the level of a row, which adds a line of a table. No sum is rounded in
:mod:`deepsep.networks.frozen`, so sums in any order have the same bits. If a bound does not guarantee that for the sums
here, the result is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from deepsep.networks.frozen import ROW_BITS, WEIGHT_BITS, NetworkAverage, activated, rounded
from deepsep.networks.interface import Array


class _Grids(NamedTuple):
    exponents: Array  # ascending
    tables: list[tuple[Array, Array]]  # of each network: bases (grids, units) and lines (grids * levels, units)


class OneHotAverage:
    """A :class:`NetworkAverage` for rows in two parts.

    ``plain`` are the features that may be any number, and ``groups`` those of each category, of which at most one is 1
    and the others are 0.
    """

    def __init__(self, average: NetworkAverage, plain: Array, groups: Sequence[Array]) -> None:
        self.average = average
        levels = np.concatenate(groups).astype(int)
        group = np.repeat(np.arange(len(groups)), [len(columns) for columns in groups])
        centre, factor = average.centre, average.factor
        self.zero, self.one = (0 - centre[levels]) * factor[levels], (1 - centre[levels]) * factor[levels]
        # Features that, once scaled, are farther from 0 for a 0 than for a 1 are treated like numbers.
        self.heavy = np.flatnonzero(np.abs(self.zero) > np.abs(self.one))
        self.heavy_groups = group[self.heavy]
        self.zero[self.heavy] = self.one[self.heavy] = 0
        self.n_levels, self.starts = len(levels), np.flatnonzero(np.diff(group, prepend=-1))
        dense = np.concatenate([plain, levels[self.heavy]]).astype(int)
        self.centre, self.factor = centre[dense], factor[dense]
        self.first = []
        for _, network in average.networks:
            W = network.layers[0]
            light = W[levels]
            light[self.heavy] = 0
            self.first.append((np.concatenate([W[dense], W[-1:]]), light))
        self.sizes = np.append(np.abs(self.one), 0)
        self.farthest = np.abs(self.zero).max()
        self._grids = _Grids(np.empty(0, int), [])
        self._built: dict[int, list[tuple[Array, Array]] | None] = {}
        self._lock = Lock()

    def predict_proba(self, plain: Array, levels: Array) -> Array | None:
        """Return the average's probabilities, (n, c) of float64, or None if the average itself must compute them.

        ``plain`` (n, k) are the features that may be any number, ``levels`` (n, groups) the feature of each category
        that is 1, by its index among those of all categories; their number if none is.
        """
        n, k = plain.shape
        rows = np.empty((n, len(self.centre) + 1))
        rows[:, :k] = plain
        for j, (level, group) in enumerate(zip(self.heavy, self.heavy_groups, strict=True)):
            rows[:, k + j] = levels[:, group] == level
        rows[:, :-1] -= self.centre
        rows[:, :-1] *= self.factor
        rows[:, -1] = 1
        largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
        largest = np.maximum(np.maximum(largest, self.farthest), self.sizes[levels].max(axis=1))
        exponents: Array = np.frexp(largest)[1]
        known = self._grids_for(exponents)
        if known is None:
            return None
        slots = np.searchsorted(known.exponents, exponents)
        rounded(rows, exponents[:, None] - ROW_BITS)
        at = levels + (slots * (self.n_levels + 1))[:, None]
        chosen = csr_array(
            (np.ones(at.size), at.ravel(), np.arange(0, at.size + 1, at.shape[1])),
            shape=(n, len(known.exponents) * (self.n_levels + 1)),
        )
        p: Any = 0
        for i, (weight, network) in enumerate(self.average.networks):
            bases, lines = known.tables[i]
            a = rows @ self.first[i][0]
            a += bases[slots]
            a += chosen @ lines
            p = p + weight * network.from_second(activated(a))
        return np.asarray((p / sum(p)).T)

    def _grids_for(self, exponents: Array, max_grids: int = 32) -> _Grids | None:
        """Return tables for these grids and others; None if sums might be rounded, or there are too many grids."""
        known = self._grids
        if np.isin(exponents, known.exponents).all():
            return known
        with self._lock:
            fresh = set(exponents.tolist()) - self._built.keys()
            if len(self._built) + len(fresh) > max_grids:
                return None
            self._built |= {grid: self._build(grid) for grid in fresh}
            if any(self._built[grid] is None for grid in exponents.tolist()):
                return None
            usable = {grid: table for grid, table in sorted(self._built.items()) if table is not None}
            stacked = [
                (np.stack([base for base, _ in each]), np.concatenate([lines for _, lines in each]))
                for each in zip(*usable.values(), strict=True)
            ]
            self._grids = _Grids(np.array(list(usable)), stacked)
            return self._grids

    def _build(self, grid: int) -> list[tuple[Array, Array]] | None:
        """Return the levels' part of the first layer of each network, on a grid; None if sums might be rounded.

        It is a vector for all rows, and a line for each level, with one of zeros for no level.
        """
        zero, one = (rounded(values.copy(), np.array(grid - ROW_BITS)) for values in (self.zero, self.one))
        possible = np.abs(self.one) < 2.0**grid  # a row with another level is on another grid
        tables = []
        for (dense, light), (_, network) in zip(self.first, self.average.networks, strict=True):
            lines = (one - zero)[:, None] * light
            most = 2.0**grid * np.abs(dense).sum(axis=0) + np.abs(zero) @ np.abs(light)
            most += np.maximum.reduceat(np.abs(lines) * possible[:, None], self.starts).sum(axis=0)
            steps = most / np.ldexp(1.0, grid - ROW_BITS + network.first_exponents)
            if steps.max() > 0.999 * 2.0 ** (ROW_BITS + WEIGHT_BITS):
                return None
            tables.append((zero @ light, np.vstack([lines, np.zeros(lines.shape[1])])))
        return tables

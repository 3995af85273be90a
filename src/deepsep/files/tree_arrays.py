"""Decision trees as arrays, with a check of their indices, which compiled code follows without checking them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Trees(NamedTuple):
    """Several binary trees, one after the other.

    Children are indices within their own tree; a leaf has -1 for both.
    """

    size: Array  # (trees,): the number of nodes of each
    left: Array  # (nodes,)
    right: Array  # (nodes,)
    feature: Array  # (nodes,): used at inner nodes only

    def check(self, n_features: int) -> Array:
        """Return the depth of each tree, or raise unless every one is a tree and uses existing features."""
        n = len(self.left)
        if (self.size < 1).any() or self.size.sum() != n:
            raise ValueError("the sizes of the trees do not add up")
        ends = np.cumsum(self.size)
        roots = ends - self.size
        first, end = np.repeat(roots, self.size), np.repeat(ends, self.size)
        inner = np.flatnonzero(self.left != -1)
        if (self.right[self.left == -1] != -1).any():
            raise ValueError("a leaf of a tree points to a node")
        limit = end[inner] - first[inner]
        for child in (self.left[inner], self.right[inner]):
            if ((child <= 0) | (child >= limit)).any():
                raise ValueError("a tree points to a node that does not exist")
        left, right = self.left + first, self.right + first
        parents = np.bincount(np.concatenate([left[inner], right[inner]]), minlength=n)
        parents[roots] += 1
        if (parents != 1).any():
            raise ValueError("a tree points to a node twice, or to none")
        feature = self.feature[inner]
        if ((feature < 0) | (feature >= n_features)).any():
            raise ValueError(f"a tree uses a feature beyond the {n_features} that exist")
        return self._depth(left, right, roots)

    def _depth(self, left: Array, right: Array, roots: Array) -> Array:
        """Return the depth of each tree, or raise if some nodes cannot be reached from a root, as in a cycle."""
        tree = np.repeat(np.arange(len(self.size)), self.size)
        depth = np.zeros(len(self.size), np.int64)
        level, reached, below = roots, len(roots), 0
        while level.size:
            level = level[self.left[level] != -1]
            level = np.concatenate([left[level], right[level]])
            below += 1
            depth[tree[level]] = below
            reached += len(level)
        if reached != len(self.left):
            raise ValueError("a tree has nodes that cannot be reached")
        return depth

"""Fits and scorings on a Ray cluster: the connection, workers that are replaced when they die, and what they hold.

Workers import the module of what they hold, and nothing else: names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

if TYPE_CHECKING:
    from deepsep.cluster.ray_fit import on_ray

__all__ = ["on_ray"]

__getattr__, __dir__ = lazy_names(__name__, {"on_ray": "deepsep.cluster.ray_fit"})

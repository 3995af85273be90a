"""Scoring on a Ray cluster: one model per worker, one part of the table at a time."""

from deepsep.apps.ray.engine import MIN_STUDENT_ROWS, score_on_cluster

__all__ = ["MIN_STUDENT_ROWS", "score_on_cluster"]

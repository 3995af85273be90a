"""Synthetic tables, in batches on the GPU: a family of small mechanisms, one file each."""

from pretraining.generator.batch import PRIORS, Batch, draw_batch

__all__ = ["PRIORS", "Batch", "draw_batch"]

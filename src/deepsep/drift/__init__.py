"""Drift of scored rows from the training table: a profile of the table, counts, and a comparison."""

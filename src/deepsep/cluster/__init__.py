"""Scoring on a Ray cluster: the connection, and workers that are replaced when they die."""

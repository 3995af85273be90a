"""Shared by all packages: labels, input checks, training rows and probabilities."""

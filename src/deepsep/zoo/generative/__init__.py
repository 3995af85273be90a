"""Variational autoencoders."""

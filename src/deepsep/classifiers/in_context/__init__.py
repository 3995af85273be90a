"""The network that reads a table in one pass."""

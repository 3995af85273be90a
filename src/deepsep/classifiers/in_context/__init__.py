"""The in-context network, which classifies a table in one pass."""

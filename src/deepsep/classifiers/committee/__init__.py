"""Several methods that decide together."""

"""Methods around a classifier of another kind."""

"""Methods around other classifiers."""

"""Algorithm 1 of the paper: deep low-density separation."""

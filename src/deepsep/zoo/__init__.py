"""Every other system that the paper names, by families."""

"""Other transductive SVMs and the null-category Gaussian process, with their solvers."""

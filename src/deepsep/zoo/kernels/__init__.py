"""Networks with the loss of an SVM or a Gaussian process."""

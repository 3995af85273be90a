"""What every part of the package shares: labels, checks of input, training rows, probabilities."""

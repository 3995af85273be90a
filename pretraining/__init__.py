"""Makes the weights of the in-context network: synthetic tables, training and evaluation."""

"""Evaluation of models: folds, out-of-fold predictions, metrics, intervals. Estimators are passed as arguments."""

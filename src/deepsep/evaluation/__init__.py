"""How good a model is: folds, predictions out of fold, metrics, intervals. Estimators come in as arguments."""

"""Known shares of the classes in the population, to which probabilities are corrected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deepsep.classifiers.base import Classifier
from deepsep.core.arrays import Array
from deepsep.core.checks import check_priors
from deepsep.core.probability import prior_shift, shifted
from deepsep.core.training_rows import TrainingRows


class WithPriors(Classifier):
    """A classifier with the setting ``priors``: the shares of the classes, where they are known.

    Probabilities are multiplied by a factor for each class such that their means over the unlabelled rows are these
    shares.

    Attributes
    ----------
    prior_shift_ : array (c,)
        Logarithms of the factors of the classes, with ``priors`` only.
    """

    priors: Mapping[Any, float] | None

    def _check_with_classes(self) -> None:
        self._shares()

    def _shares(self) -> Array | None:
        """Return the known shares in the order of the classes, if there are any."""
        return None if self.priors is None else check_priors(self.priors, self.classes_)

    def _shift_to_priors(self, p: Array, rows: TrainingRows) -> Array:
        """Find the factors from the probabilities of the training rows; return these, corrected."""
        shares = self._shares()
        if shares is not None:
            self.prior_shift_ = shift_to_shares(shares, p, rows)
        return self._shifted(p)

    def _shifted(self, p: Array) -> Array:
        return shifted(p, self.prior_shift_) if hasattr(self, "prior_shift_") else p


def shift_to_shares(shares: Array, p: Array, rows: TrainingRows) -> Array:
    """Return the logarithms of factors for which mean probabilities of the unlabelled rows are the shares."""
    pool, labeled = rows.unlabeled, rows.labeled
    log_p = np.log(np.maximum(p[pool], 1e-30))
    return prior_shift(shares, log_p, rows.weight[pool], rows.codes[labeled], rows.weight[labeled])

"""Base of the methods that may scale the features first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from deepsep.classifiers.base import Classifier
from deepsep.classifiers.declared_settings import settings
from deepsep.core.scaling import Scaling
from deepsep.core.training_rows import TrainingRows


@settings
class ScaledMethod(Classifier):
    """A method that may scale the features first, and that saves this scaling and learned values.

    Parameters
    ----------
    standardize : bool, default=True
        Whether features are first scaled to mean 0 and variance 1 over all rows.
    random_state : int, RandomState or None, default=None
        The same seed on the same machine gives the same bits.
    """

    _saved_values: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}  # learned attributes, with their types

    standardize: bool = True
    random_state: Any = None

    def _fit_scaling(self, rows: TrainingRows) -> Scaling:
        """Return the scaling of the rows, and keep it."""
        self._scaling = Scaling.of(rows.X, rows.weight) if self.standardize else Scaling.none(rows.X.shape[1])
        return self._scaling

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {name: getattr(self, name) for name in self._saved_values}, dict(vars(self._scaling))

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        self._scaling = Scaling.from_arrays(arrays, self.n_features_in_)
        self.__dict__.update({name: kind(state[name]) for name, kind in self._saved_values.items()})

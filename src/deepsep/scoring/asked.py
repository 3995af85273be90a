"""What a user asks of labels, beside the likeliest class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deepsep.classifiers.committee import Committee
from deepsep.errors import ParameterError, Setting
from deepsep.scoring.costs import Costs


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The settings of ``score_frame`` of these names; by default nothing is asked."""

    sets: float | None = None
    per_class: bool = False
    abstain: float | None = None
    costs: Costs | None = None

    def check(self, estimator: Any) -> None:
        """Raise if a model of this kind cannot do it."""
        if self.sets is not None and not isinstance(estimator, Committee):
            raise ParameterError(
                "{sets}: only a committee has the predictions out of fold that sets are made from. Leave out {sets}, "
                "or fit a committee.",
                sets=Setting("sets"),
            )
        if self.per_class and self.sets is None:
            raise ParameterError("{per_class} belongs to {sets}.", per_class=Setting("per_class"), sets=Setting("sets"))
        if self.abstain is not None and not (isinstance(self.abstain, float) and 0 < self.abstain < 1):
            raise ParameterError(
                "{abstain}; pass a confidence between 0 and 1, such as 0.8.", abstain=Setting("abstain", self.abstain)
            )
        if (self.abstain is not None or self.costs is not None) and not hasattr(estimator, "predict_proba"):
            raise ParameterError(
                "the model has no probabilities, from which labels could follow. Choose another method."
            )

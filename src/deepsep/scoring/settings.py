"""Settings of a scoring: how labels follow from probabilities, and what does the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from deepsep.classifiers.committee.committee import Committee
from deepsep.errors import ParameterError, Setting
from deepsep.scoring.costs import Costs

BATCH_ROWS = 20_000  # rows in memory at a time
ENGINE_APPS = {"ray": "deepsep.apps.ray"}  # modules whose ``score_parts`` scores on other machines


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Settings of how labels follow from probabilities; by default a label is the most probable class.

    Parameters
    ----------
    sets : float, optional
        Adds the column ``set``: classes that hold the right one with this probability, or more; see
        :meth:`deepsep.Committee.predict_set`. The student of a committee makes no sets.
    per_class : bool, default=False
        Whether the sets hold the right one equally often in all classes.
    abstain : float, optional
        The confidence below which a row gets no label; its probabilities stay.
    costs : dict {true class: {called class: cost}}, optional
        Costs of mistakes: the label is the class with the lowest expected cost, not the most probable one.
    """

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


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The machines that score, and the rows that they have in memory at a time.

    Parameters
    ----------
    engine : {"local", "ray"}, default="local"
        "ray" scores several files to a folder on a Ray cluster, one model per worker, for when one machine is not
        enough. All machines must reach source and target by the same paths. A worker that dies is replaced, and the
        rows are the same.
    address : str, optional
        Address of the Ray cluster. None: that of the variable RAY_ADDRESS. "local", or neither: one is started on this
        machine.
    workers : int, optional
        With "ray": how many workers score, with a CPU each. None: one for each CPU of the cluster.
    batch_rows : int, default=20_000
        Number of rows in memory at a time, and in a transaction of a database.
    """

    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    workers: int | None = None
    batch_rows: int = BATCH_ROWS

    def __post_init__(self) -> None:
        if self.engine not in ("local", "ray"):
            raise ParameterError("{engine}; pass 'local' or 'ray'.", engine=Setting("engine", self.engine))
        if self.workers is not None and self.engine != "ray":
            raise ParameterError(
                "{workers} belongs to {ray}.",
                workers=Setting("workers", self.workers),
                ray=Setting("engine", "ray"),
            )
        if not (isinstance(self.batch_rows, int) and self.batch_rows >= 1):
            raise ParameterError("{rows}; pass an integer of at least 1.", rows=Setting("batch_rows", self.batch_rows))

    def check_local(self) -> None:
        """Raise unless this machine scores."""
        if self.engine == "ray":
            raise ParameterError(
                "{ray} scores several files, such as a folder of Parquet parts, to a folder; use {local} for a file.",
                ray=Setting("engine", "ray"),
                local=Setting("engine", "local"),
            )


MOST_PROBABLE_CLASS = Decision()
THIS_MACHINE = Resources()

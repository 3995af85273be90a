"""Record of a method: all that is known of it without importing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple


class Range(NamedTuple):
    """Range in which a setting is tuned."""

    low: float
    high: float
    whole: bool = False
    log: bool = True


@dataclass(frozen=True)
class Method:
    """Record of a method.

    Attributes
    ----------
    name, title : str
        Its name in code and on the command line, and in sentences.
    place : str
        Its class, as ``module:class`` of this package.
    what, assumes, cost : str
        Short description, assumption and cost, as help and reports show them.
    uses_unlabeled : bool
        Whether it learns from unlabelled rows.
    compared : bool
        Whether ``deepsep compare`` runs it by default: the committee, and one method for each idea whose fits take
        seconds.
    in_study : bool
        Whether it is in the paper's study.
    tuning : mapping
        Range of each setting that is tuned.
    classifier : str
        Class that a supervised method wraps, as ``module:class``.
    settings : mapping
        Settings of that class that differ from its defaults.
    standardize : bool
        Whether a supervised method scales features first.
    extra : str
        The optional extra of deepsep that installs its dependencies.
    shipped : mapping
        Settings that commands use instead of its defaults.
    """

    name: str
    title: str
    place: str
    what: str
    assumes: str
    cost: str
    uses_unlabeled: bool = True
    compared: bool = False
    in_study: bool = False
    tuning: Mapping[str, Range] = field(default_factory=dict)
    classifier: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    standardize: bool = False
    extra: str = ""
    shipped: Mapping[str, Any] = field(default_factory=dict)

    @property
    def class_name(self) -> str:
        """The name of its class."""
        return self.place.partition(":")[2]

    @property
    def home(self) -> str:
        """The module of its class."""
        return f"deepsep.{self.place.partition(':')[0]}"

    @property
    def is_installed(self) -> bool:
        """True if the package that it needs is installed."""
        return not self.extra or find_spec(self.classifier.partition(":")[0]) is not None

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
    """Record of a method."""

    name: str  # in code and on the command line
    title: str  # in sentences
    place: str  # its class, as ``module:class`` of this package
    what: str  # short description, as help and reports show it, like its assumption and its cost
    assumes: str
    cost: str
    uses_unlabeled: bool = True  # whether it learns from unlabelled rows
    # Whether ``deepsep compare`` runs it by default: the committee, and one quick method for each idea
    compared: bool = False
    in_study: bool = False  # whether it is in the paper's study
    tuning: Mapping[str, Range] = field(default_factory=dict)  # range of each setting that is tuned
    classifier: str = ""  # class that a supervised method wraps, as ``module:class``
    settings: Mapping[str, Any] = field(default_factory=dict)  # settings of that class that differ from its defaults
    standardize: bool = False  # whether a supervised method scales features first
    extra: str = ""  # the optional extra of deepsep that installs its dependencies
    shipped: Mapping[str, Any] = field(default_factory=dict)  # settings that commands use instead of its defaults

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

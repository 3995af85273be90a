"""The members of a committee: the usual ones, or those given, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone

from deepsep.classifiers.building import method
from deepsep.core.checks import require
from deepsep.errors import ParameterError

COMMITTEE = "committee"  # name of the committee among its members in ``out_of_fold_``


@dataclass(frozen=True)
class UsualMember:
    """Member of a committee that was given none.

    Attributes
    ----------
    name : str
        Its name in the committee.
    method : str
        The method's name in the catalogue.
    why : str
        Its strength.
    weight : float
        Its weight without evidence, relative to the others; 0: it must first prove useful.
    settings : mapping
        Settings of the method that differ from its defaults.
    efforts : tuple of str
        Efforts at which it takes part.
    """

    name: str
    method: str
    why: str
    weight: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    efforts: tuple[str, ...] = ("fast", "normal", "best")


USUAL_MEMBERS = (
    UsualMember("random-forest", "random-forest", "columns of any kind and scale, most of them irrelevant", 0.15),
    UsualMember("extra-trees", "extra-trees", "the same, with smoother boundaries", 0.15),
    UsualMember("deepsep", "deepsep", "classes with few rows between them", 0.0),
    UsualMember(
        "in-context",
        "in-context",
        "few labels, many categories, typical company tables",
        0.5,
        {"view": "columns"},
        ("normal", "best"),
    ),
    UsualMember(
        "in-context-components",
        "in-context",
        "many correlated numbers: spectra, images, sensors",
        0.25,
        {"view": "components", "n_members": 2},
        ("normal", "best"),
    ),
    UsualMember("lightgbm-few-labels", "lightgbm-few-labels", "interactions of columns, given enough labels", 0.05),
)


def unfitted_members(committee: Any) -> dict[str, Any]:
    """Return copies of a committee's members by name, or raise if its setting ``members`` makes no sense."""
    members = committee.members
    if members is None:
        seats = [seat for seat in USUAL_MEMBERS if committee.effort in seat.efforts]
        return {seat.name: method(seat.method, **seat.settings) for seat in seats}
    listed = isinstance(members, Iterable) and not isinstance(members, str)
    require(committee, "members", listed, "a list of methods' names or estimators, or a dict of name to either")
    named = dict(members) if isinstance(members, Mapping) else _by_name(members)
    if not named or COMMITTEE in named:
        raise ParameterError("Committee: members: name at least one method, and not the committee itself.")
    for name, member in named.items():
        if not isinstance(name, str) or not (isinstance(member, str) or hasattr(member, "get_params")):
            raise ParameterError(f"Committee: members: {member!r} is neither a method's name nor an estimator.")
    return {name: method(each) if isinstance(each, str) else clone(each) for name, each in named.items()}


def _by_name(members: Iterable[Any]) -> dict[str, Any]:
    """Return members by name: that of the method, or of the class."""
    named: dict[str, Any] = {}
    for member in members:
        name = member if isinstance(member, str) else getattr(member, "method_name", "") or type(member).__name__
        while name in named:
            name += "-again"
        named[name] = member
    return named


def adopt(member: Any, seed: int, priors: Mapping[Any, float] | None) -> None:
    """Give a member the committee's seed and the known shares, if it has such settings without a value."""
    own = member.get_params(deep=False)
    wanted = {"random_state": seed, "priors": priors}
    member.set_params(**{name: value for name, value in wanted.items() if own.get(name, 0) is None})

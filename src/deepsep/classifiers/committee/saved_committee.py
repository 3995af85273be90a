"""A committee in the parts that a saved model holds: its members, their weights, and the predictions out of fold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from deepsep.classifiers.committee.members import COMMITTEE
from deepsep.classifiers.committee.student import Student
from deepsep.classifiers.restoring import needs_code, put_together
from deepsep.core.arrays import below, checked_array
from deepsep.core.label_origins import LABEL_ORIGINS, LabelOrigins
from deepsep.core.labels import codes_of
from deepsep.errors import ModelFileError
from deepsep.evaluation.expected_accuracy import ExpectedAccuracy, UnseenClasses
from deepsep.evaluation.learning_curve import LearningCurve
from deepsep.evaluation.out_of_fold import OutOfFold
from deepsep.files.saving import take_apart

if TYPE_CHECKING:
    from deepsep.classifiers.committee.committee import Committee

GIVEN_MEMBERS = "estimators"  # saved in place of members that were not given by name


def saved_members(members: Any) -> Any:
    """Return the setting ``members`` as it is saved: without estimators, which are saved fitted."""
    each = members.values() if isinstance(members, Mapping) else members or ()
    return members if all(isinstance(member, str) for member in each) else GIVEN_MEMBERS


def committee_to_parts(model: Committee) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a saved committee holds: plain values, and arrays."""
    state: dict[str, Any] = {
        "weights_": model.weights_,
        "temperature_": model.temperature_,
        "failures_": model.failures_,
        "shares_": None if model.shares_ is None else model.shares_.tolist(),
        "expected_accuracy_": None if model.expected_accuracy_ is None else list(model.expected_accuracy_),
        "learning_curve_": None if model.learning_curve_ is None else model.learning_curve_.to_state(),
    }
    sections: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for i, (name, member) in enumerate(model.members_.items()):
        section, own = take_apart(member)
        if any(needs_code(value) for value in section["settings"].values()):
            raise ModelFileError(f"Committee: the member {name!r} has your own encoder and cannot be saved.")
        sections.append({"name": name, **section})
        arrays |= {f"member{i}.{part}": array for part, array in own.items()}
    origins, unseen = model.label_origins_, list(model.unseen_)
    state["labels_drawn"] = {"given": origins.given, "rests_on": list(origins.rests_on), "unseen": unseen}
    arrays["label_origins"] = origins.codes
    if model.member_shifts_:
        arrays["shifts"] = np.stack(
            [model.member_shifts_.get(name, np.zeros(len(model.classes_))) for name in model.members_]
        )
    state["sections"], state["student"] = sections, None
    if model.student_ is not None:
        state["student"], own = take_apart(model.student_)
        arrays |= {f"student.{part}": array for part, array in own.items()}
    if model.out_of_fold_ is not None:
        state["held_out"], held_out = model.out_of_fold_.to_parts()
        arrays |= {f"held_out.{name}": array for name, array in held_out.items()}
    return state, arrays


def restore_committee(model: Committee, state: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Make a fitted committee of what :func:`committee_to_parts` returned."""
    c = len(model.classes_)
    model.members_, model.out_of_fold_ = {}, None
    for i, section in enumerate(state["sections"]):
        name = section["name"]
        model.members_[name] = _restore_part(model, f"the member {name!r}", section, arrays, f"member{i}.")
    student = state["student"]
    model.student_ = None if student is None else _restore_part(model, "the student", student, arrays, "student.")
    if model.student_ is not None and type(model.student_) is not Student:
        raise ModelFileError("the student is another model. Save the model again.")
    model.weights_, model.temperature_ = state["weights_"], float(state["temperature_"])
    model.failures_, expected = state["failures_"], state["expected_accuracy_"]
    model.shares_ = None if state["shares_"] is None else np.array(state["shares_"], float)
    model.expected_accuracy_ = None if expected is None else ExpectedAccuracy(*map(float, expected))
    curve = state.get("learning_curve_")  # missing in models of earlier versions
    model.learning_curve_ = None
    if curve is not None and model.expected_accuracy_ is not None:
        model.learning_curve_ = LearningCurve.from_state(curve, model.expected_accuracy_)
    if list(model.weights_) != list(model.members_) or not 0 < model.temperature_ < np.inf:
        raise ModelFileError("weights and members do not fit together. Save the model again.")
    if "held_out" in state:
        codes = codes_of(model.classes_, model.transduction_)
        model.out_of_fold_ = OutOfFold.from_parts(state["held_out"], below(arrays, "held_out."), codes, model.classes_)
        if not {COMMITTEE, *model.members_} <= set(model.out_of_fold_.p):
            raise ModelFileError("the model has no predictions out of fold of some members. Save it again.")
    model.label_origins_ = _restored_origins(model, state, arrays)
    model.member_shifts_ = {}
    if "shifts" in arrays:
        shifts = checked_array(arrays, "shifts", (len(model.members_), c), "f")
        model.member_shifts_ = {name: shift for name, shift in zip(model.members_, shifts, strict=True) if shift.any()}
    if model.members == GIVEN_MEMBERS:
        model.members = {name: clone(member) for name, member in model.members_.items()}


def _restored_origins(model: Committee, state: Mapping[str, Any], arrays: Mapping[str, Any]) -> LabelOrigins:
    drawn, codes = state["labels_drawn"], checked_array(arrays, "label_origins", (len(model.transduction_),), "i")
    if not np.isin(codes, range(-1, len(LABEL_ORIGINS))).all() or not set(drawn["rests_on"]) <= {"random", "quota"}:
        raise ModelFileError("the model has origins of labels that are unknown. Save it again.")
    model.unseen_ = UnseenClasses(*map(float, drawn["unseen"]))
    return LabelOrigins(codes, tuple(drawn["rests_on"]), given=bool(drawn["given"]))


def _restore_part(
    model: Committee, what: str, section: Mapping[str, Any], arrays: Mapping[str, Any], prefix: str
) -> Any:
    """Return the member or student whose arrays have this prefix."""
    part = put_together(section, below(arrays, prefix), others=(Student,))
    if not np.array_equal(part.classes_, model.classes_) or part.n_features_in_ != model.n_features_in_:
        raise ModelFileError(f"{what} has other classes or columns. Save the model again.")
    return part

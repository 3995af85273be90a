"""Choice of the model that scores: a committee, or its student where there are many rows."""

from __future__ import annotations

from typing import Any

from deepsep.core.model_parts import estimator_of, is_pipeline
from deepsep.errors import ParameterError, Setting

MANY_ROWS = 100_000  # above which a student scores in place of its committee,


def student_of(model: Any) -> Any:
    """Return the student of a committee, be it behind an encoding; None if the model has none."""
    return getattr(estimator_of(model), "student_", None)


def with_student(model: Any) -> Any:
    """Return the model with the student in place of its committee."""
    student = student_of(model)
    if not is_pipeline(model):
        return student
    return type(model)([*model.steps[:-1], ("student", student)], transform_input=model.transform_input)


def check_fast(fast: bool | None, sets: float | None) -> None:
    """Raise if the student is asked for sets."""
    if fast and sets is not None:
        raise ParameterError(
            "{fast}: sets rest on the committee's predictions out of fold, and the student's probabilities are others. "
            "Leave out {fast}, or {sets}.",
            fast=Setting("fast", True),
            sets=Setting("sets"),
        )


def choose(model: Any, rows: int, fast: bool | None) -> Any:
    """Return the model, or the same with the student in place of its committee; None: by the number of rows."""
    most_loss = 0.02  # if that is expected to cost no more accuracy
    student = student_of(model)
    if fast and student is None:
        raise ParameterError(
            "{fast}: the model has no student. Only a committee has one, fitted with at least 100 unlabelled rows and "
            "without student=False; leave out {fast}, or fit it again.",
            fast=Setting("fast", True),
        )
    if fast is None:
        fast = student is not None and student.accuracy_loss_ <= most_loss and rows > MANY_ROWS
    return with_student(model) if fast else model

"""Which model scores a table: a committee, or its student where there are many rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.pipeline import Pipeline

from deepsep.errors import ParameterError, Setting
from deepsep.scoring.parts import Part

MANY_ROWS = 100_000  # rows above which a student scores in place of its committee


def with_student(model: Any) -> Any:
    """Return the model with the student in place of its committee; None if it has none."""
    last = model[-1] if isinstance(model, Pipeline) else model
    student = getattr(last, "student_", None)
    if student is None or not isinstance(model, Pipeline):
        return student
    return Pipeline([*model.steps[:-1], ("student", student)], transform_input=model.transform_input)


def choose(model: Any, parts: Sequence[Part], fast: bool | None) -> Any:
    """Return the model, or the same with the student in place of its committee; None: by the number of rows."""
    student = with_student(model)
    if fast and student is None:
        raise ParameterError(
            "{fast}: the model has no student. Only a committee has one, fitted with at least 100 unlabelled rows and "
            "without student=False; leave out {fast}, or fit it again.",
            fast=Setting("fast", True),
        )
    if fast is None:
        fast = student is not None and has_many_rows(parts)
    return student if fast else model


def has_many_rows(parts: Sequence[Part]) -> bool:
    """Whether the parts have more rows together than a committee should score."""
    known = [part.n_rows for part in parts if part.n_rows is not None]
    if len(known) == len(parts):
        return sum(known) > MANY_ROWS
    return any(part.source.has_more_rows(MANY_ROWS) for part in parts)


def describe(model: Any) -> dict[str, Any]:
    """Return which method scores and, if it is a student, how it differs from its committee."""
    last = model[-1] if isinstance(model, Pipeline) else model
    name = getattr(last, "method_name", type(last).__name__)
    measured = {"agreement": last.agreement_, "accuracy_loss": last.accuracy_loss_} if name == "student" else {}
    return {"scored_by": name, "agreement": None, "accuracy_loss": None} | measured

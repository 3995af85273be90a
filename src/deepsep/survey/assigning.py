"""Give new respondents their segment, from a table that may lack questions and contain unknown answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from deepsep.errors import DataError
from deepsep.survey.questions import read_column, unknown_answers
from deepsep.survey.segment_files import respondents_table
from deepsep.survey.survey_segments import SurveySegments


@dataclass(frozen=True)
class Assigned:
    """Respondents with their segments.

    Attributes
    ----------
    table : DataFrame
        The identifier, ``segment`` (its name; missing without any answer that counts), ``probability`` of that segment,
        and ``probability_<name>`` for each segment: the columns of respondents.parquet.
    absent : list of str
        Questions of the model that the answers lack.
    unknown : dict {question: {answer: respondents}}
        Answers that the model does not know, the most frequent first.
    ignored : list of str
        Columns that the model does not use.
    """

    table: pd.DataFrame
    absent: list[str] = field(default_factory=list)
    unknown: dict[str, dict[str, int]] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)

    @property
    def sentences(self) -> list[str]:
        """Sentences on questions, answers and respondents of the table that do not count."""
        sentences = []
        if self.absent:
            sentences.append(
                f"{len(self.absent)} questions of the segments are not in the table: {_listed(self.absent)}. They "
                "count as not answered."
            )
        if self.unknown:
            cells = sum(count for answers in self.unknown.values() for count in answers.values())
            shown = [f"{name}: {next(iter(answers))!r}" for name, answers in self.unknown.items()]
            sentences.append(
                f"{cells:,} answers to {len(self.unknown)} questions were rare or absent when the segments were found, "
                f"and do not count: {_listed(shown)}."
            )
        without = int(self.table["segment"].isna().sum())
        if without:
            sentences.append(f"{without:,} respondents gave no answer that counts and have no segment.")
        return sentences


def assign_segments(model: SurveySegments, answers: Any, *, ids: Any = None, id_name: str = "row") -> Assigned:
    """Give new respondents their segment.

    Questions may be missing in the table, and respondents may give answers that the model has not seen: neither counts,
    and the result says which. Columns may be in any order.

    Parameters
    ----------
    model : SurveySegments
        A fitted model.
    answers : DataFrame
        One row per respondent; its columns are matched by name.
    ids : array-like, optional
        Unique identifiers of the respondents; by default the row numbers.
    id_name : str, default="row"
        Name of the column of identifiers.

    Returns
    -------
    Assigned
        With the attributes ``table``, ``absent``, ``unknown`` and ``ignored``.

    Raises
    ------
    DataError
        If the table has none of the model's questions.

    Examples
    --------
    >>> from deepsep import SurveySegments
    >>> from deepsep.survey import assign_segments
    >>> known = pd.DataFrame({"Drinks": ["tea", "coffee"] * 20, "Gets up": ["early", "late"] * 20})
    >>> model = SurveySegments(n_segments=2, names=["Larks", "Owls"], random_state=0).fit(known)
    >>> new = assign_segments(model, pd.DataFrame({"Drinks": ["coffee", "tea", "juice"]}))
    >>> len(set(new.table["segment"][:2])), bool(new.table["segment"].isna()[2])
    (2, True)
    >>> new.absent, new.unknown
    (['Gets up'], {'Drinks': {'juice': 1}})
    """
    frame = (answers.to_pandas() if hasattr(answers, "to_pandas") else pd.DataFrame(answers)).reset_index(drop=True)
    frame.columns = frame.columns.astype(str)
    questions = [question.name for question in model.questions_]
    absent = [name for name in questions if name not in frame.columns]
    if len(absent) == len(questions):
        raise DataError(
            f"the table has none of the {len(questions)} questions of the segments, such as {_listed(questions)}. Its "
            f"columns are {_listed(list(frame.columns))}."
        )
    columns = list(getattr(model, "feature_names_in_", map(str, range(model.n_features_in_))))
    same = frame.reindex(columns=[name for name in columns if name in frame.columns])
    unknown = {}
    for question in model.questions_:
        column = None if question.name in absent else read_column(question.name, same[question.name])
        strange = {} if column is None else unknown_answers(question, column)
        if strange:
            unknown[question.name] = strange
    empty = pd.DataFrame(None, index=frame.index, columns=[name for name in columns if name not in same], dtype=object)
    whole = pd.concat([same, empty], axis=1)[columns]
    given: Any = whole if hasattr(model, "feature_names_in_") else whole.to_numpy(dtype=object)
    return Assigned(
        respondents_table(model, given, ids=ids, id_name=id_name),
        absent,
        unknown,
        [name for name in frame.columns if name not in questions],
    )


def _listed(names: list[str], most: int = 5) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")

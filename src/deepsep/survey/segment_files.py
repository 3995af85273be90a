"""Respondents with their segments: those of a segmentation as a folder of files, and new ones from another table."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deepsep._version import __version__
from deepsep.errors import DataError, listed
from deepsep.evaluation.frames import check_id_name
from deepsep.files.atomic import install
from deepsep.files.saving import model_files
from deepsep.survey.answer_profiles import dump_names, suggest_names
from deepsep.survey.choosing_k import reason_for_k
from deepsep.survey.questions import read_column, unknown_answers
from deepsep.survey.survey_segments import SurveySegments

RESPONDENT_COLUMNS = ("segment", "probability")  # before one probability per segment
SUMMARY_FILE, RESPONDENTS_FILE, PROFILES_FILE = "summary.json", "respondents.parquet", "profiles.csv"
NAMES_FILE, PAGE_FILE, MODEL_FOLDER = "names.json", "segments.html", "model"


def write_segments(
    model: SurveySegments,
    answers: Any,
    folder: str | os.PathLike[str],
    *,
    ids: Any = None,
    id_name: str = "row",
    render: Callable[[dict[str, Any]], str] | None = None,
) -> dict[str, Any]:
    """Write the files of ``deepsep segments`` to a folder, and return the summary.

    =====================  ======================================================================================
    respondents.parquet    the identifier, ``segment`` (its name; null without any answers), ``probability`` of that
                           segment, and ``probability_<name>`` for each segment
    profiles.csv           every answer of every segment: share, overall share, lift; the most telling first
    names.json             the names, for you to edit; see :func:`deepsep.survey.read_names`
    model/                 the fitted model, for :func:`deepsep.load`
    summary.json           sizes, most telling answers, columns left out, and the comparison behind "auto"
    segments.html          the same as a page, if ``render`` is given
    =====================  ======================================================================================

    The folder is written completely or not at all; files of an earlier run are replaced, other files stay.

    Parameters
    ----------
    model : SurveySegments
        A fitted model.
    answers : DataFrame or array
        The respondents to write, with the columns that the model was fitted to.
    folder : str or path
        A new or empty folder, or the result of an earlier run.
    ids : array-like, optional
        Unique identifiers of the respondents; by default the row numbers.
    id_name : str, default="row"
        Name of the column of identifiers.
    render : callable, optional
        Returns the page for a summary, such as :func:`deepsep.report.render_segments`.

    Returns
    -------
    dict
        The content of summary.json.

    Raises
    ------
    DataError
        If the folder contains anything but an earlier run, or is the current folder. Nothing is changed then.
    """
    target = check_folder(folder)
    respondents = respondents_table(model, answers, ids=ids, id_name=id_name)
    summary = summarize_segments(model)
    names = model.segment_names_
    profiles = model.profiles_.assign(name=names[model.profiles_["segment"]])
    profiles = profiles[["segment", "name", *model.profiles_.columns[1:]]]
    parquet = io.BytesIO()
    respondents.to_parquet(parquet, index=False)
    files = {
        RESPONDENTS_FILE: parquet.getvalue(),
        PROFILES_FILE: profiles.to_csv(index=False, float_format="%.6g").encode(),
        NAMES_FILE: dump_names(names.tolist()).encode(),
        SUMMARY_FILE: (json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(),
    }
    if render is not None:
        files[PAGE_FILE] = render(summary).encode()
    files |= {f"{MODEL_FOLDER}/{name}": content for name, content in model_files(model).items()}
    install(files, target, own=(RESPONDENTS_FILE, PROFILES_FILE, NAMES_FILE, SUMMARY_FILE, PAGE_FILE, MODEL_FOLDER))
    return summary


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """Return the resolved path, or raise if segments must not be written there."""
    target, here = Path(folder).resolve(), Path.cwd()
    if target == here or target in here.parents:  # a shell in a folder that is replaced is left in a deleted one
        raise DataError(
            f"{target} is the current folder or a parent of it. Write to a separate folder, such as segments."
        )
    if target.exists() and not target.is_dir():
        raise DataError(f"{target} is a file, which deepsep does not overwrite. Write to another folder.")
    if target.is_dir() and any(target.iterdir()) and read_summary(target) is None:
        raise DataError(
            f"{target} contains files that `deepsep segments` did not write, and they are not overwritten. Write to "
            "another folder, or empty this one."
        )
    return target


def read_summary(folder: Path) -> dict[str, Any] | None:
    """Return the summary of an earlier run in a folder, or None if there is none."""
    try:
        summary = json.loads((folder / SUMMARY_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    known = isinstance(summary, dict) and {"deepsep", "n_segments", "segments"} <= summary.keys()
    return summary if known and (folder / RESPONDENTS_FILE).is_file() else None


def respondents_table(model: SurveySegments, answers: Any, *, ids: Any = None, id_name: str = "row") -> pd.DataFrame:
    """Return the identifier, the segment and the probabilities of each respondent."""
    proportions, labels = np.asarray(model.transform(answers)), model.predict(answers)
    ids = pd.Series(np.arange(len(labels)) if ids is None else ids).reset_index(drop=True)
    if len(ids) != len(labels):
        raise DataError(f"there are {len(ids)} identifiers for {len(labels)} respondents; pass one for each.")
    check_id_name(id_name, [*RESPONDENT_COLUMNS, *(f"probability_{name}" for name in model.segment_names_)])
    repeated = ids.duplicated()
    if repeated.any():
        raise DataError(
            f"{id_name}={ids[repeated].iloc[0]} identifies several respondents. Drop the duplicates, or choose another "
            "identifier."
        )
    segment = np.array([*model.segment_names_, None], dtype=object)[labels]
    table = pd.DataFrame({id_name: ids, "segment": segment, "probability": proportions.max(axis=1)})
    for k, name in enumerate(model.segment_names_):
        table[f"probability_{name}"] = proportions[:, k]
    return table


def summarize_segments(model: SurveySegments) -> dict[str, Any]:
    """Return the segments as plain values, for the command line and summary.json."""
    weight = model.weight_
    counting = np.ones(len(model.labels_)) if weight is None else weight
    segments, suggested = [], suggest_names(model.profiles_, model.n_segments_)
    for k, name in enumerate(model.segment_names_):
        top, own = model.profiles_[model.profiles_["segment"] == k].head(5), model.labels_ == k
        segments.append(
            {
                "segment": k,
                "name": name,
                "suggested": suggested[k],
                "size": int(own.sum()),
                "share": float(model.sizes_[k] / counting.sum()),
                "mean_probability": float(np.average(model.probability_[own], weights=counting[own]))
                if counting[own].any()
                else None,
                "telling": top[["question", "answer", "share", "overall", "lift"]].to_dict("records"),
            }
        )
    scores = model.k_scores_
    return {
        "deepsep": __version__,
        "respondents": len(model.labels_),
        "without_answers": int((model.labels_ < 0).sum()),
        "weighted": weight is not None,
        "questions": len(model.questions_),
        "answers": sum(len(question.answers) for question in model.questions_),
        "left_out": model.left_out_,
        "n_segments": model.n_segments_,
        "perplexity": model.perplexity_,
        "segments": segments,
        "compared": None if scores is None else scores.reset_index().to_dict("records"),
        "reason": None if scores is None else reason_for_k(scores),
    }


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
                f"{len(self.absent)} questions of the segments are not in the table: {listed(self.absent)}. They "
                "count as not answered."
            )
        if self.unknown:
            cells = sum(count for answers in self.unknown.values() for count in answers.values())
            shown = [f"{name}: {next(iter(answers))!r}" for name, answers in self.unknown.items()]
            sentences.append(
                f"{cells:,} answers to {len(self.unknown)} questions were rare or absent when the segments were found, "
                f"and do not count: {listed(shown)}."
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
            f"the table has none of the {len(questions)} questions of the segments, such as {listed(questions)}. Its "
            f"columns are {listed(list(frame.columns))}."
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

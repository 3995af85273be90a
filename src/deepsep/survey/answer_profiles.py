"""The answers that set a segment apart, names suggested from them, and a small file of names for people to edit."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deepsep.core.arrays import Array
from deepsep.errors import DataError, ParameterError
from deepsep.survey.questions import Question

MAX_PHRASE_LENGTH = 36  # characters of a question and its answer in a name


def count_answers(
    X: Any, labels: Array, questions: Sequence[Question], n_segments: int, weight: Array | None = None
) -> tuple[Array, Array]:
    """Count, per segment, the respondents who gave each answer, and those who answered its question at all.

    X is one-hot, (n, answers), in the order of the questions, and ``labels`` are the segments of its rows, -1 for none.
    Both results are (segments, answers).
    """
    placed = labels >= 0
    member = np.zeros((len(labels), n_segments))
    member[placed, labels[placed]] = 1.0 if weight is None else weight[placed]
    gave = (X.T @ member).T
    answered = np.empty_like(gave)
    start = 0
    for question in questions:
        end = start + len(question.answers)
        any_answer = np.asarray(X[:, start:end].sum(axis=1)).ravel() > 0
        answered[:, start:end] = (member.T @ any_answer)[:, np.newaxis]
        start = end
    return gave, answered


def make_profiles(gave: Array, answered: Array, questions: Sequence[Question]) -> pd.DataFrame:
    """Return one row per segment and answer, the most telling first.

    ``share`` is the share of the segment's respondents who gave the answer, among those who answered the question;
    ``overall`` is the same share among all respondents; ``lift`` is the first divided by the second. ``telling`` =
    share · log(lift) measures how well an answer sets the segment apart: it is a term of the Kullback–Leibler
    divergence between the answers of the segment and those of everyone, negative for answers that are rarer in it.
    """
    share = _ratio(gave, answered)
    overall = np.broadcast_to(_ratio(gave.sum(axis=0), answered.sum(axis=0)), share.shape)
    lift = np.divide(share, overall, out=np.ones_like(share), where=overall > 0)
    telling = share * np.log(np.where(lift > 0, lift, 1.0))
    k = len(gave)
    names = [question.name for question in questions for _ in question.answers]
    answers = [answer for question in questions for answer in question.answers]
    table = pd.DataFrame(
        {
            "segment": np.repeat(np.arange(k), len(names)),
            "question": names * k,
            "answer": answers * k,
            "share": share.ravel(),
            "overall": overall.ravel(),
            "lift": lift.ravel(),
            "telling": telling.ravel(),
        }
    )
    return table.sort_values(["segment", "telling"], ascending=[True, False], kind="stable", ignore_index=True)


def _ratio(part: Array, whole: Array) -> Array:
    """Return part / whole, 0 where there is nothing."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def suggest_names(profiles: pd.DataFrame, n_segments: int) -> list[str]:
    """Return a short, unique name for each segment, made of its two most telling answers to different questions.

    Examples
    --------
    >>> table = pd.DataFrame({
    ...     "segment": [0, 0, 1, 1], "question": ["Smokes", "Sport", "Sport", "Diet"],
    ...     "answer": ["Every day", "No", "Yes", "Vegan"], "telling": [0.5, 0.4, 0.5, 0.3]})
    >>> suggest_names(table, 2)
    ['Smokes: every day, sport: no', 'Sport, diet: vegan']
    """
    names: list[str] = []
    for k in range(n_segments):
        telling = profiles[(profiles["segment"] == k) & (profiles["telling"] > 0)].drop_duplicates("question")
        phrases = [
            _phrase(question, answer) for question, answer in zip(telling["question"], telling["answer"], strict=True)
        ]
        for parts in range(2, len(phrases) + 1):
            name = _sentence(phrases[:parts])
            if name not in names:
                break
        else:
            name = _sentence(phrases) if phrases else "Like everyone"
        names.append(name if name not in names else f"{name} ({k})")
    return names


def _phrase(question: str, answer: str) -> str:
    """Return a question and its answer in a few words: "sport", "sport: no", "smokes: every day"."""
    question, short = question.strip().rstrip("?:."), answer.strip().lower()
    if short in ("yes", "true", "selected", "checked"):
        return _cut(_lower(question))
    room = max(MAX_PHRASE_LENGTH - len(answer) - 2, MAX_PHRASE_LENGTH // 3)
    return f"{_cut(_lower(question), room)}: {_cut(_lower(answer), MAX_PHRASE_LENGTH)}"


def _sentence(phrases: Sequence[str]) -> str:
    text = ", ".join(phrases)
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    """Return the text with its first letter in lower case, unless it starts with an abbreviation or single letter."""
    return text[0].lower() + text[1:] if text[1:2].islower() else text


def _cut(text: str, length: int = MAX_PHRASE_LENGTH) -> str:
    """Return at most ``length`` characters, cut between words where possible."""
    if len(text) <= length:
        return text
    head = text[: length - 1]
    return (head.rsplit(" ", 1)[0] if " " in head[length // 2 :] else head).rstrip(" ,;:") + "…"


def read_names(path: str | os.PathLike[str]) -> dict[int, str]:
    """Read the names of segments from a JSON file such as ``{"0": "Night owls", "1": "Early birds"}``.

    Segments that are not in the file keep their suggested names.

    Parameters
    ----------
    path : str or path
        The file, in the format of :func:`write_names`.

    Returns
    -------
    dict
        Number of the segment to its name, for ``SurveySegments(names=...)`` or
        :meth:`~deepsep.SurveySegments.rename`.

    Raises
    ------
    DataError
        If the file is not such JSON, names a segment twice, or gives two segments the same name.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_names(["Night owls", "Early birds"], f"{folder}/names.json")
    ...     read_names(f"{folder}/names.json")
    {0: 'Night owls', 1: 'Early birds'}
    """
    place, example = Path(path), '{"0": "Night owls", "1": "Early birds"}'
    try:
        pairs = json.loads(place.read_text(encoding="utf-8-sig"), object_pairs_hook=list)
    except OSError as error:
        raise DataError(f"{place} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise DataError(f"{place} is not a JSON file: {error}. It should look like {example}.") from error
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise DataError(f"{place} does not map segments to names. It should look like {example}.")
    names: dict[int, str] = {}
    for key, name in pairs:
        if not (key.isascii() and key.isdigit()):
            raise DataError(f"{place}: {key!r} is not the number of a segment. It should look like {example}.")
        if int(key) in names:
            raise DataError(f"{place}: segment {key} is named twice, {names[int(key)]!r} and {name!r}. Keep one.")
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"{place}: the name of segment {key} is {name!r}; write some text.")
        names[int(key)] = name.strip()
    try:
        apply_names([f"\0{k}" for k in range(max(names, default=-1) + 1)], names)
    except ParameterError as error:
        raise DataError(f"{place}: {error}") from None
    return names


def write_names(names: Sequence[str] | Mapping[int, str], path: str | os.PathLike[str]) -> None:
    """Write the names of segments to a JSON file that people can edit; :func:`read_names` reads it.

    Parameters
    ----------
    names : sequence of str, or dict of int to str
        In the order of the segments, or by their number.
    path : str or path
        The file; an existing one is replaced.
    """
    Path(path).write_text(dump_names(names), encoding="utf-8")


def dump_names(names: Sequence[str] | Mapping[int, str]) -> str:
    """Return names as the text of a JSON file."""
    pairs = names.items() if isinstance(names, Mapping) else enumerate(names)
    return json.dumps({str(k): str(name) for k, name in pairs}, indent=2, ensure_ascii=False) + "\n"


def apply_names(suggested: Sequence[str], names: Any) -> list[str]:
    """Return the suggested names, replaced by the user's where given, or raise."""
    if not isinstance(names, Mapping):
        names = dict(enumerate(names))
    known = range(len(suggested))
    unknown = [key for key in names if isinstance(key, bool) or not isinstance(key, int) or key not in known]
    if unknown:
        raise ParameterError(
            f"names: there is no segment {unknown[0]!r}; the segments are 0 to {len(suggested) - 1}, largest first."
        )
    result = [str(names.get(k, suggested[k])).strip() for k in known]
    for k in names:
        if not isinstance(names[k], str) or not result[k]:
            raise ParameterError(f"names[{k}]={names[k]!r}; pass some text.")
    for k, name in enumerate(result):
        if name in result[:k]:
            raise ParameterError(
                f"names: segments {result.index(name)} and {k} would both be called {name!r}. Give each its own name."
            )
    return result

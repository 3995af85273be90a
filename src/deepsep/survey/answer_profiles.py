"""Find the answers that set a segment apart, and suggest a name from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deepsep.survey.questions import Question

Array = NDArray[Any]

MAX_PHRASE_LENGTH = 36  # characters of a question and its answer in a name


def count_answers(
    X: Any,  # (n, answers), one-hot
    labels: Array,  # (n,), segment of each row; -1 for none
    questions: Sequence[Question],  # in the order of the columns of X
    n_segments: int,
    weight: Array | None = None,  # (n,)
) -> tuple[Array, Array]:
    """Count, per segment, the respondents who gave each answer, and those who answered its question at all.

    Returns
    -------
    gave, answered : arrays (k, answers)
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

    Returns
    -------
    DataFrame
        Columns segment, question, answer, share, overall, lift, telling.
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

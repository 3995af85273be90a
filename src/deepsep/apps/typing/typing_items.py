"""The questions that a typing tool may ask, each with one answer from a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from deepsep.survey.questions import Question, encode, read_column


@dataclass(frozen=True)
class Item:
    """A question with one answer from a list."""

    name: str  # text of the question, and name of the column of its answers
    answers: tuple[str, ...]  # the answers that count
    question: str  # the column of the survey
    option: str | None  # for a question that takes several answers: the one of them that "Yes" or "No" is about
    kind: str  # of the question


def items_of(questions: Sequence[Question]) -> list[Item]:
    """Return the items of a survey: its questions, and a yes or no for each answer where they take several.

    Examples
    --------
    >>> items = items_of([Question("Sport", "choice", ("no", "yes")), Question("Drinks", "several", ("tea",), ";")])
    >>> [(item.name, item.answers) for item in items]
    [('Sport', ('no', 'yes')), ('Drinks: tea', ('Yes', 'No'))]
    """
    items: list[Item] = []
    taken: set[str] = set()
    for question in questions:
        for option in question.answers if question.kind == "several" else (None,):
            name = question.name if option is None else f"{question.name}: {option}"
            while name.casefold() in taken:  # columns of a database do not differ in case alone
                name += "'"
            taken.add(name.casefold())
            answers = question.answers if option is None else ("Yes", "No")
            items.append(Item(name, answers, question.name, option, question.kind))
    return items


def encode_items(answers: Any, questions: Sequence[Question]) -> Any:
    """Return the answers to all items, a CSR matrix of zeros and ones, from those to the questions."""
    blocks, start, columns = [], 0, sparse.csc_array(answers.astype(float))
    for question in questions:
        block = columns[:, start : start + len(question.answers)]
        start += len(question.answers)
        if question.kind != "several":
            blocks.append(block)
            continue
        answered = sparse.csc_array((np.asarray(block.sum(axis=1)).reshape(-1, 1) > 0).astype(float))
        for j in range(block.shape[1]):
            blocks += [block[:, [j]], answered - block[:, [j]]]
    return sparse.hstack(blocks, format="csr")


def ask_items(table: Any, items: Sequence[Item], questions: Sequence[Question]) -> pd.DataFrame:
    """Return the answers to the items as text, None where there is none, from a table of answers to the survey."""
    known = {question.name: question for question in questions}
    asked: dict[str, Any] = {}
    for item in items:
        column = read_column(item.question, table[item.question])
        cells = np.full(len(table), None, dtype=object)
        if column is not None and item.option is None:
            cells = np.array([*column.levels, None], dtype=object)[column.codes]
        elif column is not None:
            question = known[item.question]
            given = encode({question.name: column}, [question], len(table)).toarray().astype(bool)
            yes = given[:, question.answers.index(item.option or "")]
            cells[given.any(axis=1)] = "No"
            cells[yes] = "Yes"
        asked[item.name] = cells
    return pd.DataFrame(asked, index=getattr(table, "index", None), dtype=object)

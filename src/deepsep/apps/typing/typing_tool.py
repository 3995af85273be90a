"""A typing tool: a few questions, with points for every answer, that recover the segments of a survey."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from deepsep.core.arrays import Array
from deepsep.core.threads import one_blas_thread
from deepsep.errors import DataError, ParameterError, Setting
from deepsep.evaluation.intervals import share_right
from deepsep.survey.questions import Question, encode, read_column
from deepsep.survey.survey_segments import SurveySegments

OnStep = Callable[[int, int, str], object]

N_FOLDS = 5
POINTS_PER_LOGIT = 10


@dataclass(frozen=True)
class TypingTool:
    """A few questions that recover the segments of a survey, with integer points for every answer.

    The points of a respondent are the sum of the points of the answers, for each segment. The segment is the one with
    the most points, the first of them on a tie; its probability is exp(points / 10), divided by the sum of the same
    over all segments. A question without an answer, or with one that is not in the list, adds nothing.

    Attributes
    ----------
    items : tuple of Item
        The questions, the most helpful first.
    segment_names : tuple of str
        Names of the segments.
    start : array (k,) of int
        Points of each segment before any answer.
    points : tuple of arrays (answers, k) of int
        For each question the points of its answers.
    curve : DataFrame
        For each number of questions: the ``question`` that is added, the ``agreement`` with the segments of all
        questions, ``low`` and ``high``, the ends of its 90 % interval. Measured on respondents who were held out from
        the choice of the questions and from the points.
    agreement_of_all : float
        The same for a tool with all questions.
    respondents : int
        Number of respondents that the tool was made from.
    suggested : int
        The smallest number of questions whose agreement is within 5 points of that of all questions; the number tried
        if there is none.
    """

    items: tuple[Item, ...]
    segment_names: tuple[str, ...]
    start: Array
    points: tuple[Array, ...]
    curve: pd.DataFrame
    agreement_of_all: float
    respondents: int
    suggested: int

    @property
    def agreement(self) -> dict[str, float]:
        """The agreement of this tool with the segments of all questions, with its 90 % interval."""
        line = self.curve.loc[len(self.items)]
        return {name: float(line[name]) for name in ("agreement", "low", "high")}

    def assign(self, answers: Any) -> pd.DataFrame:
        """Give respondents their segment from the answers to the few questions.

        Parameters
        ----------
        answers : DataFrame
            One column per question of the tool, by its name; others are ignored. :func:`deepsep.apps.typing.ask_items`
            makes it of a table of the whole survey.

        Returns
        -------
        DataFrame
            ``segment``, ``probability``, ``answered`` (the number of answers that count), and for each segment
            ``probability_<name>`` and ``points_<name>``. Without any answer that counts, segment and probabilities
            are missing.
        """
        absent = [item.name for item in self.items if item.name not in answers.columns]
        if absent:
            raise DataError(
                f"the table lacks the questions {', '.join(map(repr, absent))}. Add their columns; cells may be empty."
            )
        total = np.tile(self.start, (len(answers), 1))
        answered = np.zeros(len(answers), dtype=np.int64)
        for item, points in zip(self.items, self.points, strict=True):
            column = read_column(item.name, answers[item.name])
            place = {answer: i for i, answer in enumerate(item.answers)}
            levels = [] if column is None else [place.get(level, -1) for level in column.levels]
            codes = np.full(len(answers), -1) if column is None else np.array([*levels, -1])[column.codes]
            total += np.vstack([points, np.zeros_like(self.start)])[codes]
            answered += codes >= 0
        p = softmax(total / POINTS_PER_LOGIT, axis=1)
        p[answered == 0] = np.nan
        names = np.array([*self.segment_names, None], dtype=object)
        result = {
            "segment": names[np.where(answered > 0, total.argmax(axis=1), -1)],
            "probability": p.max(axis=1),
            "answered": answered,
            **{f"probability_{name}": p[:, k] for k, name in enumerate(self.segment_names)},
            **{f"points_{name}": total[:, k] for k, name in enumerate(self.segment_names)},
        }
        return pd.DataFrame(result, index=getattr(answers, "index", None))


def make_typing_tool(
    model: SurveySegments,
    n_questions: int | None = None,
    *,
    within: float = 0.05,
    random_state: int = 0,
    on_step: OnStep | None = None,
) -> TypingTool:
    """Find the fewest questions that recover the segments of a survey, and points for their answers.

    Questions are added one at a time: the one with which a linear regression of the segments on the answers predicts
    held-out respondents best, by squared error. The points are the coefficients of a multinomial logistic regression
    with an L2 penalty, times ten and rounded. The curve is measured in five folds: in each, questions are chosen and
    points are made without the respondents on whom the tool is measured.

    Parameters
    ----------
    model : SurveySegments
        A fitted model that keeps the answers of its respondents.
    n_questions : int, optional
        Number of questions, 1 to 30. By default the fewest, up to 15, whose agreement with the model is at most
        ``within`` below that of a tool with all questions.
    within : float, default=0.05
        See ``n_questions``.
    random_state : int, default=0
        Seed of the folds.
    on_step : callable, optional
        Called as ``on_step(done, total, what)``.

    Returns
    -------
    TypingTool

    Examples
    --------
    >>> from deepsep import SurveySegments
    >>> from deepsep.datasets import make_survey
    >>> answers = make_survey(300, n_segments=3, random_state=0).answers
    >>> tool = make_typing_tool(SurveySegments(n_segments=3, random_state=0).fit(answers), 3)
    >>> len(tool.items), bool(0.6 < tool.agreement["agreement"] <= 1)
    (3, True)
    """
    if not isinstance(model, SurveySegments):
        raise ParameterError(f"model={type(model).__name__}; pass fitted segments of a survey, SurveySegments.")
    if not 0 <= within < 1:
        raise ParameterError("{it}; pass a share from 0 to 1, such as 0.05.", it=Setting("within", within))
    items = items_of(model.questions_)
    most = min(30, len(items))
    if n_questions is not None and not 1 <= n_questions <= most:
        raise ParameterError(f"{{it}}; pass a number from 1 to {most}.", it=Setting("n_questions", n_questions))
    X = encode_items(model.answers_of_respondents(), model.questions_)
    weight = np.ones(X.shape[0]) if model.weight_ is None else model.weight_
    used = (model.labels_ >= 0) & (weight > 0)
    X, labels, weight = X[used], model.labels_[used], weight[used] / weight[used].mean()
    if len(labels) < 2 * N_FOLDS:
        raise DataError(f"{len(labels)} respondents are too few for a typing tool; it takes at least {2 * N_FOLDS}.")
    data = _Data(X, labels, weight, _folds(labels, random_state), items, model.n_segments_)
    tried = max(n_questions or 0, min(15, len(items)))
    with one_blas_thread():
        orders, total = [], N_FOLDS + 1
        for done, left_out in enumerate((*range(N_FOLDS), None)):
            if on_step is not None:
                on_step(done, total, "choosing questions")
            orders.append(data.choose(tried, left_out))
        right = [data.held_out([order[:m] for order in orders[:N_FOLDS]]) for m in range(1, tried + 1)]
        of_all = data.held_out([list(range(len(items)))] * N_FOLDS)
        if on_step is not None:
            on_step(total, total, "done")
        given = None if model.weight_ is None else weight
        shares = [share_right(each, given) for each in right]
        ceiling = share_right(of_all, given)[0]
        suggested = next((m for m, (share, _) in enumerate(shares, start=1) if share >= ceiling - within), tried)
        chosen = orders[-1][: n_questions or suggested]
        start, points = data.points(chosen)
    curve = pd.DataFrame(
        [(items[i].name, share, *interval) for i, (share, interval) in zip(orders[-1], shares, strict=True)],
        columns=["question", "agreement", "low", "high"],
        index=pd.RangeIndex(1, tried + 1, name="questions"),
    )
    return TypingTool(
        tuple(items[i] for i in chosen),
        tuple(model.segment_names_.tolist()),
        start,
        tuple(points),
        curve,
        ceiling,
        len(labels),
        suggested,
    )


class _Data:
    """Respondents in folds, with the sums of squares and products of their answers, from which regressions follow."""

    def __init__(self, X: Any, labels: Array, weight: Array, fold: Array, items: Sequence[Item], k: int) -> None:
        self.X, self.labels, self.weight, self.fold, self.k = X, labels, weight, fold, k
        ends = np.cumsum([len(item.answers) for item in items])
        self.columns = [np.arange(end - len(item.answers), end) for item, end in zip(items, ends, strict=True)]
        ones = sparse.csr_array(np.ones((X.shape[0], 1)))
        design = sparse.hstack([X, ones], format="csr")
        segments = np.eye(k)[labels]
        self.gram, self.product, self.total = [], [], []
        for f in range(N_FOLDS):
            rows = fold == f
            weighted = design[rows].multiply(weight[rows, np.newaxis]).tocsr()
            self.gram.append((weighted.T @ design[rows]).toarray())
            self.product.append(np.asarray(weighted.T @ segments[rows]))
            self.total.append(float(weight[rows].sum()))

    def choose(self, most: int, left_out: int | None) -> list[int]:
        """Return the questions in the order in which they are added, without one fold."""
        folds = [f for f in range(N_FOLDS) if f != left_out]
        gram, product = (np.sum([parts[f] for f in folds], axis=0) for parts in (self.gram, self.product))
        order: list[int] = []
        columns = np.array([self.X.shape[1]])  # the constant
        for _ in range(most):
            losses = {
                i: math.fsum(self._loss(gram, product, np.concatenate([columns, self.columns[i]]), f) for f in folds)
                for i in range(len(self.columns))
                if i not in order
            }
            order.append(min(losses, key=lambda i: losses[i]))
            columns = np.concatenate([columns, self.columns[order[-1]]])
        return order

    def _loss(self, gram: Array, product: Array, columns: Array, fold: int) -> float:
        """Return the squared error in a fold of a ridge regression on the other folds."""
        at = np.ix_(columns, columns)
        own, target = self.gram[fold][at], self.product[fold][columns]
        penalty = np.eye(len(columns))
        penalty[0, 0] = 1e-9 * gram[-1, -1]
        slope = np.linalg.solve(gram[at] - own + penalty, product[columns] - target)
        return float(self.total[fold] - 2 * (slope * target).sum() + (slope * (own @ slope)).sum())

    def points(self, chosen: Sequence[int], rows: Any = slice(None)) -> tuple[Array, list[Array]]:
        """Return the points before any answer, and those of the answers to each chosen question."""
        max_points = 100  # of an answer: with at most 30 questions, no exponential overflows
        columns = np.concatenate([self.columns[i] for i in chosen])
        X, labels, weight = self.X[rows][:, columns], self.labels[rows], self.weight[rows]
        start, slopes = np.full(self.k, -float(max_points)), np.zeros((len(columns), self.k))
        present = np.unique(labels)
        if len(present) == 1:
            start[present] = 0.0
        else:
            fit = LogisticRegression(C=1.0, max_iter=300).fit(X, labels, sample_weight=weight)
            intercept, coefficients = fit.intercept_, fit.coef_
            if len(present) == 2:  # scikit-learn has one line for two classes
                intercept, coefficients = (
                    np.append(-intercept, intercept) / 2,
                    np.vstack([-coefficients, coefficients]) / 2,
                )
            start[present], slopes[:, present] = POINTS_PER_LOGIT * intercept, POINTS_PER_LOGIT * coefficients.T
        rounded = np.clip(np.rint(slopes), -max_points, max_points).astype(np.int64)
        sizes = np.cumsum([len(self.columns[i]) for i in chosen])[:-1]
        return np.clip(np.rint(start), -max_points, max_points).astype(np.int64), np.split(rounded, sizes)

    def held_out(self, chosen: Sequence[Sequence[int]]) -> Array:
        """Return whether each respondent's segment is recovered, by points from the other folds."""
        right = np.zeros(len(self.labels), dtype=bool)
        for f, questions in enumerate(chosen):
            test = self.fold == f
            start, points = self.points(questions, ~test)
            columns = np.concatenate([self.columns[i] for i in questions])
            total = start + self.X[test][:, columns] @ np.vstack(points)
            right[test] = total.argmax(axis=1) == self.labels[test]
        return right


def _folds(labels: Array, seed: int) -> Array:
    """Return the fold of each respondent; all folds have about the same segments."""
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % N_FOLDS
    return fold


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

"""SurveySegments finds segments of respondents in their answers to a survey."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from deepsep.core.arrays import Array, checked_array
from deepsep.core.checks import is_integer, private_generator, require, row_weights
from deepsep.core.threads import one_blas_thread
from deepsep.errors import DataError, DeepSepWarning, ModelFileError
from deepsep.survey.answer_profiles import apply_names, count_answers, make_profiles, suggest_names
from deepsep.survey.choosing_k import OnStep, choose_k, compare_k
from deepsep.survey.lda import AnswersLDA, fit_lda
from deepsep.survey.questions import Column, Question, encode, read_column, read_question


class SurveySegments(ClusterMixin, TransformerMixin, BaseEstimator):
    """Find segments of respondents in their answers to a questionnaire, by latent Dirichlet allocation.

    Every answer becomes a column of zeros and ones, as in the paper; a respondent is a bag of answers. Latent Dirichlet
    allocation finds k segments, each a distribution over the answers, and describes each respondent as a mixture of
    them. The segment of a respondent is the one with the largest proportion. The model is that of scikit-learn's
    ``LatentDirichletAllocation``; the fitting is deepsep's own in part, for speed: it starts from a clustering of the
    respondents, and its E-step works on many rows at once.

    The columns of the table may be:

    - *one choice* from a list: text, true/false, or categories;
    - *several choices* in a cell, with a separator: "tea; milk". The separator is detected if cells combine answers
      that recur, or set with ``separator``;
    - *scales*: numbers with at most 20 different values, and ordered categories. Each step counts as an answer.

    Missing answers (None, NaN, blank) are ignored, and so are answers that ``fit`` has not seen. Identifiers, free
    text, dates, measurements and questions that everyone answered alike are left out, with a warning; see
    ``left_out_``.

    Parameters
    ----------
    n_segments : int or "auto", default=5
        Number of segments. "auto" compares those in ``k_range`` and takes the most stable k of those that predict
        held-out answers about as well as the best one; see :meth:`compare_k`.
    k_range : tuple of two int, default=(2, 8)
        Smallest and largest number of segments for "auto" and :meth:`compare_k`.
    separator : "auto", str, None or dict, default="auto"
        The text between several answers in a cell: detected for each column, the same for all columns, none, or by
        column name (columns not in the dict have none).
    min_count : int, default=5
        Answers given by fewer respondents do not count.
    n_init : int, default=3
        Number of starts; the one with the lowest perplexity is kept.
    max_iter : int, default=30
        Passes over the respondents in each start.
    names : dict of int to str, or sequence of str, optional
        Names of segments by number; the others get a name made of their most telling answers. See
        :func:`deepsep.survey.read_names`.
    random_state : int, RandomState or None, default=None
        Seed of the starts.

    Attributes
    ----------
    labels_ : array (n,) of int
        Segment of each respondent, 0 to k − 1, the largest segment first; -1 without any answer that counts.
    probability_ : array (n,)
        Proportion of that segment in the respondent's mixture.
    segment_names_ : array (k,) of str
        Names of the segments.
    sizes_ : array (k,)
        Number of respondents in each segment; with weights, the sum of their weights.
    profiles_ : DataFrame
        For each segment, every answer with its share in the segment, its overall share and the ratio of the two (lift),
        the most telling first.
    questions_ : list of Question
        The questions, with the answers that count.
    left_out_ : dict of str to str
        Columns that are not questions, and why.
    n_segments_ : int
        k.
    perplexity_ : float
        Perplexity on the training rows; lower is better.
    k_scores_ : DataFrame or None
        The comparison behind "auto"; see :meth:`compare_k`.
    n_iter_ : int
        Passes over the respondents.
    lda_ : LatentDirichletAllocation
        The fitted model, a subclass of scikit-learn's; its columns are the answers in the order of ``questions_``.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : array of str
        Their names, if the table had names.

    Notes
    -----
    The fitted model keeps the answers of its respondents, without identifiers, and :func:`deepsep.save` writes them:
    :func:`deepsep.apps.typing.make_typing_tool` needs them. ``forget_answers`` removes them.

    The segments do not depend on the order of the answers' names, but they do depend on the seed; :meth:`compare_k`
    shows how much. The same seed gives the same segments on one machine; on others, sums may round differently, which
    can move a respondent who is exactly between two segments.

    Examples
    --------
    >>> import pandas as pd
    >>> from deepsep import SurveySegments
    >>> answers = pd.DataFrame({
    ...     "Drinks": ["tea; milk", "tea", "coffee", "coffee; juice"] * 10,
    ...     "Gets up": ["early", "early", "late", "late"] * 10,
    ...     "Sport": [True, True, False, None] * 10,
    ... })
    >>> model = SurveySegments(n_segments=2, random_state=0).fit(answers)
    >>> model.sizes_.tolist()
    [20, 20]
    >>> new = pd.DataFrame({"Drinks": ["tea", "coffee"], "Gets up": ["early", "late"], "Sport": [True, False]})
    >>> early, late = model.predict(new)
    >>> early == model.labels_[0], late == model.labels_[2]
    (np.True_, np.True_)
    """

    def __init__(
        self,
        *,
        n_segments: int | str = 5,
        k_range: tuple[int, int] = (2, 8),
        separator: Any = "auto",
        min_count: int = 5,
        n_init: int = 3,
        max_iter: int = 30,
        names: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_segments = n_segments
        self.k_range = k_range
        self.separator = separator
        self.min_count = min_count
        self.n_init = n_init
        self.max_iter = max_iter
        self.names = names
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, on_step: OnStep | None = None) -> Self:
        """Find the segments.

        Parameters
        ----------
        X : DataFrame (pandas, polars) or array of shape (n, questions)
            One row per respondent, one column per question.
        y : ignored
        sample_weight : array-like of shape (n,), optional
            Weights of the respondents: a weight of k counts as k copies, 0 as absent, in the segments, their number,
            sizes and profiles. A respondent of weight 0 gets a segment as well. ``min_count`` counts people.
        on_step : callable, optional
            Called as ``on_step(done, total, what)`` while "auto" compares: steps done, total steps, what comes next.

        Returns
        -------
        SurveySegments
            Itself.
        """
        self._check_settings()
        rng = private_generator(self.random_state)
        rows, weight = self._read_questions(X, sample_weight, stacklevel=3)
        used, counted = _of_weight(rows, weight)
        with one_blas_thread():
            self.k_scores_ = None
            if self.n_segments == "auto":
                self.k_scores_ = self._compare(used, rng, counted, on_step)
            k = int(self.n_segments) if self.k_scores_ is None else choose_k(self.k_scores_)
            seeds = rng.integers(2**31 - 1, size=self.n_init)
            self.lda_ = fit_lda(used, k, seeds=seeds, max_iter=self.max_iter, sample_weight=counted)
            proportions = self.lda_.transform(rows)
        self.n_segments_ = k
        self._answers, self._weight = rows.astype(np.int8), weight
        self.labels_ = _labels(rows, proportions)
        self.probability_ = proportions.max(axis=1)
        self._gave, self._answered = count_answers(rows, self.labels_, self.questions_, k, weight)
        self._describe()
        suggested = suggest_names(self.profiles_, k)
        self.segment_names_ = np.array(apply_names(suggested, self.names or {}), dtype=object)
        return self

    def transform(self, X: Any) -> Array:
        """Return the proportions of the segments in each respondent's mixture, an array (n, k)."""
        return self._proportions(X)[1]

    def predict(self, X: Any) -> Array:
        """Return the segment of each respondent, 0 to k − 1; -1 without any answer that counts."""
        return _labels(*self._proportions(X))

    def compare_k(self, X: Any, sample_weight: Any = None) -> pd.DataFrame:
        """Compare the numbers of segments in ``k_range``, without fitting this model.

        Parameters
        ----------
        X, sample_weight : as in ``fit``

        Returns
        -------
        DataFrame
            Indexed by k. ``perplexity`` is measured on half the answers of held-out respondents, given the other half:
            the mean over four refits on a random 80 % of the rows (lower is better), with its standard deviation;
            ``gain`` is the fall in perplexity from one segment to k, as a share of the largest fall; ``stability`` is
            the agreement of the refits on the segments of all respondents (mean adjusted Rand index: 1 for the same
            segments, 0 for chance).
        """
        self._check_settings()
        fresh = type(self)(**self.get_params())
        rows = _of_weight(*fresh._read_questions(X, sample_weight, stacklevel=3))
        with one_blas_thread():
            return self._compare(rows[0], private_generator(self.random_state), rows[1])

    def rename(self, names: Any) -> Self:
        """Rename segments by number; the others keep their names.

        Parameters
        ----------
        names : dict of int to str, or sequence of str
            For example from :func:`deepsep.survey.read_names`.
        """
        check_is_fitted(self)
        self.segment_names_ = np.array(apply_names(self.segment_names_.tolist(), names), dtype=object)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns of ``transform``, which are the names of the segments."""
        check_is_fitted(self)
        return self.segment_names_.copy()

    @property
    def weight_(self) -> Array | None:
        """The weights of the respondents; None if all count alike."""
        return self._weight

    def answers_of_respondents(self) -> Any:
        """Return the one-hot answers of the respondents, a CSR matrix (n, answers) in the order of ``questions_``."""
        check_is_fitted(self)
        if self._answers is None:
            raise DataError(
                "the model does not have the answers of its respondents. Fit it again with this version of deepsep."
            )
        return self._answers

    def forget_answers(self) -> Self:
        """Remove the answers of the respondents from the model, for instance before you pass it on."""
        check_is_fitted(self)
        self._answers = None
        return self

    # -- reading ---------------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        k = self.n_segments
        require(self, "n_segments", k == "auto" or is_integer(k, 2), 'an integer of at least 2, or "auto"')
        low_high = isinstance(self.k_range, Sequence) and len(self.k_range) == 2
        holds = low_high and all(is_integer(end, 2) for end in self.k_range) and self.k_range[0] <= self.k_range[1]
        require(self, "k_range", holds, "the smallest and the largest number of segments, such as (2, 8)")
        text = isinstance(self.separator, str) and bool(self.separator.strip())
        known = text or self.separator is None or isinstance(self.separator, dict)
        require(self, "separator", known, 'text such as ";", "auto", None, or a dict of column to text')
        for name in ("min_count", "n_init", "max_iter"):
            require(self, name, is_integer(getattr(self, name), 1), "an integer of at least 1")

    def _read_columns(self, X: Any, *, reset: bool) -> tuple[dict[str, Column | None], int]:
        if hasattr(X, "to_pandas"):  # polars, pyarrow
            X = X.to_pandas()
        if isinstance(X, pd.DataFrame):
            names = [str(name) for name in X.columns]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise DataError(f"the table has several columns named {twice[0]!r}. Give each column its own name.")
            validate_data(self, X, reset=reset, skip_check_array=True)
            if not len(X):
                raise DataError(
                    f"Found array with 0 sample(s) (shape={X.shape}): the table has no rows. Pass at least two."
                )
        else:
            X = pd.DataFrame(validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False))
            names = [str(name) for name in X.columns]
        if reset and len(X) < 2:
            raise DataError(f"the table has n_samples={len(X)} row; segments need at least two respondents.")
        return {name: read_column(name, X.iloc[:, j]) for j, name in enumerate(names)}, len(X)

    def _read_questions(self, X: Any, sample_weight: Any, *, stacklevel: int) -> tuple[Any, Array | None]:
        """Set ``questions_`` and ``left_out_`` and return the one-hot answers, and the weights unless all are 1."""
        columns, n_all = self._read_columns(X, reset=True)
        weight = None if sample_weight is None else row_weights(np.empty((n_all, 0)), sample_weight)
        weight = None if weight is None or (weight == 1).all() else weight
        counting = None if weight is None or weight.all() else weight > 0
        if counting is not None and counting.sum() < 2:
            raise DataError(
                f"{int(counting.sum())} of {n_all} respondents have a weight above 0; segments need at least "
                "two. Check the weights."
            )
        n = n_all if counting is None else int(counting.sum())
        self.questions_: list[Question] = []
        self.left_out_: dict[str, str] = {}
        by_column = isinstance(self.separator, dict)
        for name, column in columns.items():
            question = read_question(
                name,
                column if column is None or counting is None else column.of(counting),
                n,
                separator=self.separator.get(name) if by_column else self.separator,
                detect=self.separator == "auto",
                min_count=self.min_count,
            )
            if isinstance(question, str):
                self.left_out_[name] = question
            else:
                self.questions_.append(question)
        reasons = [f"{name!r} ({why})" for name, why in self.left_out_.items()]
        shown = "; ".join(reasons[:5]) + (f"; and {len(reasons) - 5} more, see left_out_" if len(reasons) > 5 else "")
        if not self.questions_:
            raise DataError(
                f"none of the {len(columns)} columns is a question with answers that at least {self.min_count} of "
                f"{n} respondents gave: {shown}. Pass more respondents, or lower min_count."
            )
        if reasons:
            warnings.warn(
                f"{len(reasons)} of {len(columns)} columns are left out: {shown}.",
                DeepSepWarning,
                stacklevel=stacklevel,
            )
        return encode(columns, self.questions_, n_all), weight

    def _proportions(self, X: Any) -> tuple[Any, Array]:
        check_is_fitted(self)
        columns, n = self._read_columns(X, reset=False)
        rows = encode(columns, self.questions_, n)
        with one_blas_thread():
            return rows, self.lda_.transform(rows)

    # -- fitting ---------------------------------------------------------------------------------------------

    def _compare(
        self, rows: Any, rng: np.random.Generator, weight: Array | None, on_step: OnStep | None = None
    ) -> pd.DataFrame:
        low, high = self.k_range
        return compare_k(
            rows,
            range(low, high + 1),
            n_init=self.n_init,
            max_iter=self.max_iter,
            rng=rng,
            sample_weight=weight,
            on_step=on_step,
        )

    def _describe(self) -> None:
        """Set the attributes that follow from the counts and the labels."""
        placed = self.labels_ >= 0
        weight = None if self._weight is None else self._weight[placed]
        self.sizes_ = np.bincount(self.labels_[placed], weights=weight, minlength=self.n_segments_)
        self.profiles_ = make_profiles(self._gave, self._answered, self.questions_)
        self.perplexity_ = float(self.lda_.bound_)
        self.n_iter_ = self.lda_.n_iter_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags

    # -- saving ----------------------------------------------------------------------------------------------

    def _saved_settings(self) -> dict[str, Any]:
        """Return the settings for a saved model."""
        return dict(self.get_params(deep=False))

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the other parts of a saved model: plain values, and arrays."""
        state = {
            "questions": [{**asdict(question), "answers": list(question.answers)} for question in self.questions_],
            "left_out_": self.left_out_,
            "segment_names_": self.segment_names_,
            "perplexity": float(self.lda_.bound_),
        }
        arrays = {
            "components": self.lda_.components_,
            "exp_expectation": self.lda_.exp_dirichlet_component_,
            "gave": self._gave,
            "answered": self._answered,
            "labels_": self.labels_,
            "probability_": self.probability_,
        }
        arrays |= {} if self._answers is None else {"answers": self._answers}
        arrays |= {} if self._weight is None else {"weight": self._weight}
        if self.k_scores_ is not None:
            state["k_scores"] = {"k": self.k_scores_.index.tolist(), "columns": self.k_scores_.columns.tolist()}
            arrays["k_scores"] = self.k_scores_.to_numpy()
        return state, arrays

    @classmethod
    def _from_parts(cls, params: dict[str, Any], state: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """Rebuild the fitted model from the result of ``_to_parts``; ``state`` also has the columns."""
        model = cls(**params)
        model.questions_ = [Question(**{**q, "answers": tuple(q["answers"])}) for q in state.pop("questions")]
        perplexity, scores = state.pop("perplexity"), state.pop("k_scores", None)
        model.__dict__.update(state)
        k, d = len(model.segment_names_), sum(len(question.answers) for question in model.questions_)
        model.n_segments_ = k
        lda = AnswersLDA(k, learning_method="batch", max_iter=model.max_iter)
        lda.components_ = checked_array(arrays, "components", (k, d), "f")
        lda.exp_dirichlet_component_ = checked_array(arrays, "exp_expectation", (k, d), "f")
        lda.doc_topic_prior_ = lda.topic_word_prior_ = 1.0 / k
        lda.n_features_in_, lda.bound_, lda.n_iter_ = d, perplexity, model.max_iter
        model.lda_ = lda
        model._gave, model._answered = (checked_array(arrays, name, (k, d), "f") for name in ("gave", "answered"))
        model.labels_ = checked_array(arrays, "labels_", (None,), "i")
        model.probability_ = checked_array(arrays, "probability_", (len(model.labels_),), "f")
        model._answers = _checked_answers(arrays.get("answers"), len(model.labels_), d)
        model._weight = checked_array(arrays, "weight", (len(model.labels_),), "f") if "weight" in arrays else None
        model.k_scores_ = scores and pd.DataFrame(
            checked_array(arrays, "k_scores", (len(scores["k"]), len(scores["columns"])), "f"),
            index=pd.Index(scores["k"], name="k"),
            columns=scores["columns"],
        )
        model._describe()
        return model


def _of_weight(rows: Any, weight: Array | None) -> tuple[Any, Array | None]:
    """Return the rows of positive weight, and their weights."""
    return (rows, weight) if weight is None else (rows[weight > 0], weight[weight > 0])


def _checked_answers(answers: Any, n: int, d: int) -> Any:
    """Return the answers of a saved model, or raise if they are not zeros and ones of its respondents."""
    if answers is None:
        return None
    if not sparse.issparse(answers) or answers.shape != (n, d) or not np.isin(answers.data, (0, 1)).all():
        raise ModelFileError("the answers in the model are not those of its respondents. Save the model again.")
    return answers


def _labels(rows: Any, proportions: Array) -> Array:
    """Return the segment with the largest proportion; -1 where no answer counts."""
    return np.where(np.diff(rows.indptr) > 0, proportions.argmax(axis=1), -1)

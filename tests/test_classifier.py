"""The skeleton of every method, tested once, in a classifier that keeps the rows which the skeleton hands it."""

import re
import warnings
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from rows import segments as make_segments
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import deepsep
from deepsep import TSVM, DeepSep, LabeledFold, method, methods
from deepsep.classifiers.base import Classifier, UnweightedClassifier
from deepsep.classifiers.declared_settings import integer, real, setting, settings, widths
from deepsep.core import training_rows
from deepsep.errors import DataError, DeepSepError, DeepSepWarning, LabelWarning, ModelFileError, ParameterError


@settings
class Recorder(Classifier):
    """A classifier by the nearest mean of a class."""

    reach: float = 1.0
    steep: bool = True
    random_state: Any = None

    def _check_parameters(self):
        if self.reach <= 0:
            raise ParameterError(f"reach={self.reach}")

    def _learn(self, rows, rng):
        self.rows_, self.draw_ = rows, rng.random()
        self.means_ = np.array(
            [
                np.average(rows.X[of], axis=0, weights=rows.weight[of])
                for of in (rows.labeled[rows.codes[rows.labeled] == k] for k in range(rows.n_classes))
            ]
        )

    def _probabilities(self, X):
        distance = cdist(X, self.means_)
        closeness = np.exp(-(distance - distance.min(axis=1, keepdims=True)) / self.reach)
        return closeness / closeness.sum(axis=1, keepdims=True)

    def _parts(self):
        return {}, {"means": self.means_}

    def _restore(self, state, arrays):
        self.means_ = arrays["means"]


class SparseRecorder(Recorder):
    """The same for a method that takes sparse rows as they are."""

    _accept = {"accept_sparse": "csr"}  # noqa: RUF012

    def _learn(self, rows, rng):
        self.rows_, self.means_ = rows, np.zeros((rows.n_classes, rows.X.shape[1]))

    def _probabilities(self, X):
        return np.full((X.shape[0], len(self.means_)), 1 / len(self.means_))


class Proportional(Recorder):
    """The same for a method to which the proportions between columns matter."""

    _proportions_matter = True


def parts_of(model):
    """Return what a saved model holds, as it is handed to the class that makes a model of it again."""
    state, arrays = model._to_parts()
    return {**state, "classes_": model.classes_, "n_features_in_": model.n_features_in_}, arrays


MARK = {"check_classifiers_classes": "uses -1 and 1 as classes, and -1 marks unlabelled rows"}


@parametrize_with_checks([Recorder()], expected_failed_checks=lambda estimator: MARK)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeepSepWarning)
        check(estimator)


@pytest.mark.parametrize("name", methods())
def test_no_method_has_a_skeleton_of_its_own(name):
    """All others of these tests rest on it."""
    kind = type(method(name))
    if name != "committee":  # its fit takes how the labels were drawn as well, and then goes the way of all others
        assert kind.fit in (Classifier.fit, UnweightedClassifier.fit)
    for each in ("training_rows", "fit_rows", "score"):
        assert getattr(kind, each) is getattr(Classifier, each)


def segments(n=120, labeled=30):
    return make_segments(n, labeled, cluster_std=2.0)


# -- labels and their marks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["integers", "booleans", "pandas"])
def test_marks_and_labels(kind):
    X, _, names = segments()
    known = np.arange(120) < 30
    if kind == "integers":
        y, classes, codes = np.where(known, (names == "blue") + 5, -1), [5, 6], names == "blue"
    elif kind == "booleans":
        y, classes, codes = np.where(known, names == "blue", None), [False, True], names == "blue"
    else:
        y, classes = pd.Series(names).where(known).astype("string"), ["amber", "blue", "cyan"]
        codes = np.searchsorted(classes, names)
        X = pd.DataFrame(X, columns=list("abcde"))
    model = Recorder().fit(X, y)
    assert model.classes_.tolist() == classes
    np.testing.assert_array_equal(model.rows_.codes, np.where(known, codes, -1))
    np.testing.assert_array_equal(model.rows_.labeled, np.arange(30))
    np.testing.assert_array_equal(model.rows_.unlabeled, np.arange(30, 120))
    assert set(model.predict(X)) <= set(classes)
    if kind == "pandas":
        assert model.feature_names_in_.tolist() == list("abcde")
        with pytest.raises(ValueError, match="feature names"):
            model.predict(X.rename(columns={"a": "z"}))


def test_what_a_fit_leaves():
    X, y, _ = segments()
    model = Recorder(random_state=0).fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_array_equal(model.label_distributions_, p)
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    np.testing.assert_array_equal(model.transduction_[:30], y[:30])
    np.testing.assert_array_equal(model.transduction_[30:], model.predict(X)[30:])
    assert model.data_fingerprint_ != Recorder(random_state=0).fit(X, y[::-1]).data_fingerprint_
    assert Recorder(random_state=0).fit(X, y).draw_ == model.draw_ != Recorder(random_state=1).fit(X, y).draw_


def test_without_unlabeled_rows_it_warns_at_the_line_of_the_caller():
    X, _, names = segments(90)
    with pytest.warns(LabelWarning, match="no unlabelled rows: Recorder learns from the labelled ones") as caught:
        model = Recorder().fit(X, names)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(model.transduction_, names)


def test_a_class_with_one_label_is_warned_of():
    X, _, names = segments(60)
    y = np.full(60, None)
    y[np.unique(names, return_index=True)[1]] = np.unique(names)
    with pytest.warns(LabelWarning, match="only one labelled row"):
        Recorder().fit(X, y)


def test_it_cross_validates():
    X, y, _ = segments()
    assert cross_val_score(Recorder(), X, y, cv=LabeledFold(3, random_state=0)).mean() > 0.8


# -- weights -------------------------------------------------------------------------------------------------


def test_a_row_of_weight_0_is_absent():
    """Rows that would turn the classes around have no influence without a weight."""
    X, y, names = segments()
    wrong = np.roll(np.unique(names), 1)[np.searchsorted(np.unique(names), names)]
    weight = np.repeat([1.0, 0.0], len(X))
    model = Recorder().fit(np.concatenate([X, X]), np.concatenate([y, wrong]), sample_weight=weight)
    np.testing.assert_array_equal(model.rows_.weight, weight)
    assert model.rows_.weighted
    assert not Recorder().fit(X, y).rows_.weighted
    np.testing.assert_array_equal(model.rows_.labeled, np.arange(30))
    np.testing.assert_array_equal(model.rows_.unlabeled, np.arange(30, 120))
    assert model.transduction_[len(X) :].tolist() == wrong.tolist()


def test_bad_weights():
    for weight, words in (
        (np.full(60, -1.0), "[Nn]egative"),
        (np.ones(59), "shape"),
        (Y0 != "amber", "class 'amber' has sample_weight 0"),
    ):
        with pytest.raises(ValueError, match=words):
            Recorder().fit(X0, Y0, sample_weight=weight)
    with pytest.raises(TypeError, match="sample_weight"):
        method("label-spreading").fit(X0, Y0, sample_weight=np.ones(60))


# -- bad data and settings -----------------------------------------------------------------------------------

X0, Y0, _ = segments(60)
SPOILT = X0.copy()
SPOILT[7, 2] = np.nan
BAD = [
    (SPOILT, Y0, "NaN: 1 values are not finite, the first in row 7, column 2.*SimpleImputer"),
    (np.where(np.isnan(SPOILT), np.inf, SPOILT), Y0, "infinity: 1 values"),
    (sparse.csr_array(SPOILT), Y0, "row 7, column 2"),
    (pd.DataFrame(SPOILT, columns=list("abcde")), Y0, "row 7, column 'c'"),
    (X0, np.full(60, None), "none of the 60 rows has a label"),
    (X0, np.where(np.arange(60) < 5, "amber", None), "all 5 labelled rows belong to one class, 'amber'"),
    (X0, np.where(np.arange(60) % 2, 1, -1), "-1 and 1 only"),
    (X0, Y0[:50], "X has 60 rows and y has 50 entries"),
    (np.ones_like(X0), Y0, "all 5 features are constant"),
    (pd.DataFrame({"age": X0[:, 0], "plan": ["free"] * 60}), Y0, "'plan'.*deepsep.for_table"),
    (np.full((60, 2), "x"), Y0, "could not convert"),
    (X0[:, 0], Y0, "1D array"),
    (X0[:, :, None], Y0, "dim 3"),
    (X0[:1], Y0[:1], "minimum of 2"),
    (X0, np.random.default_rng(0).normal(size=60), "class"),
]


@pytest.mark.parametrize("kind", [Recorder, SparseRecorder])
def test_bad_data(kind):
    for X, y, words in BAD:
        with pytest.raises(ValueError, match=words):
            kind().fit(X, y)


@pytest.mark.parametrize(
    "name", ["committee", "deepsep", "tsvm", "random-forest", "label-spreading", "mean-teacher", "co-training"]
)
def test_methods_have_the_messages_of_the_skeleton(name):
    """One of each base class: what it accepts of the rows is all that a method may change of the reading."""
    model = method(name)
    for X, y, _ in BAD:
        with pytest.raises(ValueError) as expected:  # noqa: PT011
            Recorder().fit(X, y)
        with pytest.raises(type(expected.value)) as raised:
            model.fit(X, y)
        assert str(raised.value) == str(expected.value).replace("Recorder", type(model).__name__)


@pytest.mark.parametrize(
    "form", [np.asarray, np.ndarray.tolist, pd.DataFrame, sparse.csr_matrix, lambda X: X.astype(object)]
)
def test_complex_numbers_are_refused_with_what_to_do(form):
    X, y = np.arange(12.0).reshape(6, 2) * (1 + 1j), [0, 1] * 3
    with pytest.raises(DataError, match=r"Complex data not supported.*columns of their own, such as numpy.hstack"):
        Recorder().fit(form(X), y)
    with pytest.raises(DataError, match="Complex data not supported"):
        Recorder().fit(X.real, y).predict(form(X))


def test_rows_to_predict_are_checked():
    model = Recorder()
    with pytest.raises(NotFittedError):
        model.predict(X0)
    model.fit(X0, Y0)
    with pytest.raises(DataError, match="row 7, column 2"):
        model.predict(SPOILT)
    with pytest.raises(ValueError, match="3 features"):
        model.predict(np.zeros((2, 3)))


def test_settings_are_checked_before_the_rows():
    with pytest.raises(ParameterError, match="reach=-1"):
        Recorder(reach=-1).fit(None, None)
    with pytest.raises(ParameterError, match="Recorder: steep=1; pass True or False"):
        Recorder(steep=1).fit(None, None)
    assert Recorder(steep=np.bool(False)).fit(X0, Y0)


@settings
class Declared(Recorder):
    """A classifier with one setting of each kind."""

    count: int = integer(3, 2)
    some: int | None = integer(None, 1, or_none=True)
    weight: float = real(0.5, at_least=0)
    cost: "float | str | None" = real(1.0, above=0, or_else=("pool", None))
    share: float = real(0.5, above=0, below=1)
    decay: float = real(0.0, at_least=0, below=1)
    part: float = real(1.0, above=-1, at_most=1)
    quantile: float = real(0.1, at_least=0, at_most=1)
    hidden: tuple[int, ...] = widths((8, 4))
    odd: int = setting(1, lambda value: value % 2 == 1, "an odd number")
    kind: 'Literal["hard", "soft"]' = "hard"
    form: 'Literal["round"] | None' = None


class TestDeclaredSettings:
    @pytest.mark.parametrize(
        ("name", "allowed", "refused", "words"),
        [
            ("count", [2, np.int64(5)], [1, 2.0, True, "3", None], "an integer of at least 2"),
            ("some", [None, 1], [0, 1.5], "an integer of at least 1, or None"),
            ("weight", [0, 2.5, np.float32(1)], [-1e-9, np.nan, np.inf, True, None, "1"], "a number of at least 0"),
            ("cost", [1e-9, "pool", None], [0, "pol", np.array([1.0])], 'a positive number, "pool" or None'),
            ("share", [0.1], [0, 1], "a number between 0 and 1"),
            ("decay", [0, 0.99], [1, -0.1], "a number from 0 to below 1"),
            ("part", [-0.9, 1], [-1, 1.1], "a number above -1 and at most 1"),
            ("quantile", [0, 1], [-0.1, 1.1], "a number from 0 to 1"),
            ("hidden", [(1,), [3, 2]], [(), 3, (0,), (2.5,)], "one or more positive integers, such as (128, 32)"),
            ("odd", [3], [2], "an odd number"),
            ("kind", ["soft", np.str_("hard")], ["", None, 1], '"hard" or "soft"'),
            ("form", [None, "round"], ["square"], '"round" or None'),
        ],
    )
    def test_only_their_values_are_allowed(self, name, allowed, refused, words):
        for value in allowed:
            Declared(**{name: value}).training_rows(X0, Y0)
        for value in refused:
            with pytest.raises(ParameterError, match=f"Declared: {name}=.*; pass {re.escape(words)}"):
                Declared(**{name: value}).training_rows(X0, Y0)

    def test_another_default_leaves_the_values(self):
        @settings
        class Heavier(Declared):
            weight: float = 7.0
            kind: str = "soft"

        assert (Heavier().weight, Heavier().kind, Declared().weight, Declared.weight) == (7.0, "soft", 0.5, 0.5)
        for changed in ({"weight": -1}, {"kind": "mild"}):
            with pytest.raises(ParameterError, match=f"Heavier: {next(iter(changed))}="):
                Heavier(**changed).fit(X0, Y0)


def test_a_docstring_has_the_entries_of_the_bases_that_it_lacks():
    @settings
    class Base(Recorder):
        """Something.

        Parameters
        ----------
        reach, random_state
            As everywhere.
        steep : bool, default=True
            Whether
            it is steep.

        Attributes
        ----------
        means_ : array
            The means.

        Notes
        -----
        Not for others.
        """

    @settings
    class Special(Base):
        """Something else.

        Parameters
        ----------
        reach : float
            Own words.

        References
        ----------
        Nobody.
        """

    inherited = "classes_ : array (c,)"
    text, _, rest = Special.__doc__.partition(inherited)
    assert text == (
        "Something else.\n\nParameters\n----------\nreach : float\n    Own words.\nrandom_state\n    As everywhere.\n"
        "steep : bool, default=True\n    Whether\n    it is steep.\n\nAttributes\n----------\nmeans_ : array\n"
        "    The means.\n"
    )
    assert rest.endswith("\n\nReferences\n----------\nNobody.")
    assert "Not for others" not in Special.__doc__


# -- columns of extreme size ---------------------------------------------------------------------------------

EXTREME = np.array([1e150, 1e-150, 1e-30, 1e300, 1.0])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_columns_of_extreme_size_become_ordinary_by_powers_of_two(form):
    X, y, _ = make_segments(120, 60, classes=2)
    kind = Recorder if form is np.asarray else SparseRecorder
    model = kind().fit(form(X * EXTREME), y)
    rows = model.rows_.X
    rows = rows.toarray() if sparse.issparse(rows) else rows
    size = np.abs(rows).max(axis=0)
    assert ((size > 2.0**-20) & (size < 2.0**50)).all()
    np.testing.assert_array_equal(np.ptp(np.log2(rows / (X * EXTREME)), axis=0), 0)  # one power for a column
    np.testing.assert_array_equal(rows[:, 4], X[:, 4])
    model.fit(form(X), y)  # what an earlier fit divided by is forgotten
    again = model.rows_.X
    np.testing.assert_array_equal(again.toarray() if sparse.issparse(again) else again, X)


def test_where_proportions_matter_all_columns_have_one_power():
    X, y, _ = make_segments(120, 60, classes=2)
    model = Proportional().fit(X * 1e200, y)
    np.testing.assert_array_equal(np.ptp(np.log2(model.rows_.X / (X * 1e200))), 0)


def test_new_rows_get_the_units_of_the_training_rows_and_are_bounded():
    X, y, _ = make_segments(120, 60, classes=2)
    ordinary, extreme = Recorder().fit(X, y), Recorder().fit(X * EXTREME, y)
    np.testing.assert_array_equal(extreme.predict_proba(X * EXTREME), extreme.label_distributions_)
    monstrous = np.array([np.full(5, 1e300), np.full(5, -1e308), np.full(5, 1e-310), np.zeros(5)])
    for model in (ordinary, extreme):
        np.testing.assert_allclose(model.predict_proba(monstrous).sum(axis=1), 1)
    again = Recorder._from_parts({}, *parts_of(extreme))
    np.testing.assert_array_equal(again.predict_proba(X * EXTREME), extreme.label_distributions_)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_monstrous_value_is_named(form):
    X, y, _ = make_segments(120, 60, classes=2)
    X[70, 2] = -1e300
    kind = Recorder if form is np.asarray else SparseRecorder
    with pytest.raises(DataError, match=r"column 2 has 1e\+300 in row 70.*Correct the value"):
        kind().fit(form(X), y)
    if form is np.asarray:
        with pytest.raises(DataError, match="column 'income'"):
            kind().fit(pd.DataFrame(X, columns=["a", "b", "income", "d", "e"]), y)


# -- sparse rows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.coo_matrix, sparse.csc_matrix])
def test_sparse_rows_become_dense_only_where_they_must(form):
    X, y, _ = segments()
    X = np.where(np.abs(X) > 1, X, 0)
    dense = Recorder().fit(form(X), y)
    assert type(dense.rows_.X) is np.ndarray
    assert dense.rows_.X.dtype == np.float32
    np.testing.assert_array_equal(dense.rows_.X, X.astype(np.float32))
    np.testing.assert_array_equal(dense.predict_proba(form(X)), dense.predict_proba(X.astype(np.float32)))
    as_it_is = SparseRecorder().fit(form(X), y).rows_.X
    assert as_it_is.format == "csr"
    np.testing.assert_array_equal(as_it_is.toarray(), X)


@pytest.mark.parametrize("size", [1e100, 1e-100])
def test_sparse_rows_beyond_single_precision_become_dense_in_double(size):
    X, y, _ = segments()
    model = Recorder().fit(sparse.csr_array(X * size), y)
    np.testing.assert_array_equal(model.predict(X * size), model.predict(sparse.csr_array(X * size)))
    assert model.rows_.X.dtype == np.float64


def test_sparse_rows_that_would_fill_the_memory_are_refused(monkeypatch):
    monkeypatch.setattr(training_rows, "MAX_DENSE_BYTES", 100_000_000)
    wide = sparse.csr_array(([1.0], ([0], [0])), shape=(60, 10**6))
    with pytest.raises(DataError, match=r"60 rows and 1,000,000 columns would take 0\.2 GB.*0\.1 GB.*TruncatedSVD"):
        Recorder().fit(wide, Y0)


# -- scoring -------------------------------------------------------------------------------------------------


def test_score_counts_labeled_rows_only():
    X, y, names = segments()
    model = Recorder().fit(X, y)
    right = (model.predict(X) == names)[:30]
    assert model.score(X, y) == right.mean()
    weight = np.arange(1.0, len(X) + 1)
    assert model.score(X, y, sample_weight=weight) == pytest.approx(np.average(right, weights=weight[:30]))


def test_score_knows_every_mark():
    X, y, names = segments()
    codes = np.searchsorted(["amber", "blue", "cyan"], names)
    model = Recorder().fit(X, np.where(np.arange(120) < 30, codes, -1))
    right = (model.predict(X) == codes)[:30].mean()
    for mark in (-1, np.nan, None):
        assert model.score(X, np.where(np.arange(120) < 30, codes, mark)) == right
    one = np.where((np.arange(120) < 30) & (codes == 1), 1, -1)  # fit refuses -1 and 1 alone
    assert model.score(X, one) == (model.predict(X) == 1)[one == 1].mean()
    table = deepsep.for_table(method("tsvm")).fit(pd.DataFrame(X), y)
    assert table.score(pd.DataFrame(X), y) > 0.8


def test_score_says_what_is_wrong():
    model = Recorder().fit(X0, Y0)
    for labels, weight, words in (
        (np.full(60, None), None, "none of the 60 rows of y has a label"),
        (Y0[:50], None, "X has 60 rows and y has 50"),
        (Y0, np.arange(60) >= 30, "every labelled row has sample_weight 0"),
    ):
        with pytest.raises(ValueError, match=words):
            model.score(X0, labels, sample_weight=weight)


# -- what a saved model may hold -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("n_features_in_", "five", "the model has 'five' features"),
        ("n_features_in_", 0, "the model has 0 features"),
        ("n_features_in_", 10**9, "the model has 1000000000 features"),
        ("transduction_", np.full(60, 3, np.int32), "transduction_"),
        ("label_distributions_", np.full((60, 2), 0.5), "label_distributions_"),
        ("label_distributions_", np.full((60, 3), np.nan), "gives a row no probabilities of its 3 classes"),
        ("means", np.full((3, 5), np.nan), "gives a row no probabilities of its 3 classes"),
        ("means", np.zeros((4, 5)), "gives a row no probabilities of its 3 classes"),
        ("prior_shift_", np.zeros(2), "prior_shift_"),
        ("exponents", np.zeros(5), "exponents"),
    ],
)
def test_parts_that_cannot_be_a_model_are_refused(name, value, words):
    state, arrays = parts_of(Recorder().fit(X0, Y0))
    Recorder._from_parts({}, dict(state), dict(arrays))
    (state if name in state else arrays)[name] = value
    with pytest.raises(ModelFileError, match=re.escape(words)):
        Recorder._from_parts({}, state, arrays)


@pytest.mark.parametrize("part", ["_learn", "_probabilities", "_parts", "_restore"])
def test_a_method_that_lacks_a_part_cannot_be_used(part):
    lacking = type("Lacking", (Recorder,), {part: getattr(Classifier, part)})
    with pytest.raises(NotImplementedError):
        lacking._from_parts({}, *parts_of(lacking().fit(X0, Y0)))


# -- messages ------------------------------------------------------------------------------------------------

ODD = {"amber": np.float64(0.5), "blue": np.float64(0.5), np.str_("cyan"): np.float64(2.0)}
CODES = np.where(Y0 == None, -1, (Y0 == "blue") + 5)  # noqa: E711


@pytest.mark.parametrize(
    "fail",
    [
        lambda: DeepSep(rounds=np.int64(-1)).fit(X0, Y0),
        lambda: DeepSep(hidden=(np.int64(0), 3)).fit(X0, Y0),
        lambda: DeepSep(l2=[np.float64(-1)]).fit(X0, Y0),
        lambda: DeepSep(propensity=np.str_("odds")).fit(X0, Y0),
        lambda: DeepSep(priors=ODD).fit(X0, Y0),
        lambda: DeepSep(priors={np.int64(5): np.float64(1)}).fit(X0, CODES),
        lambda: TSVM(C=np.float64(-1)).fit(X0, Y0),
        lambda: TSVM(priors=np.array([0.5, 0.5])).fit(X0, Y0),
        lambda: TSVM().fit(X0, np.full(60, -1)),
        lambda: TSVM().fit(X0, np.where(CODES == 5, 5, -1)),
        lambda: TSVM().fit(X0, CODES, sample_weight=CODES != 5),
        lambda: TSVM().fit(X0, [np.str_("a"), np.int64(3), *[None] * 58]),
        lambda: LabeledFold(np.int64(1)),
        lambda: list(LabeledFold(np.int64(40)).split(X0, CODES)),
        lambda: deepsep.out_of_fold(TSVM(), X0, Y0, n_splits=np.int64(1)),
        lambda: TSVM().fit(pd.DataFrame(SPOILT, columns=np.arange(5).astype(str)), Y0),
    ],
)
def test_messages_show_values_as_a_user_writes_them(fail):
    with pytest.raises(DeepSepError) as raised:
        fail()
    assert not re.search(r"np\.|array\(|dtype", str(raised.value))

"""The student of a committee: what it learns, against mathematics; what is said of it; saving."""

import numpy as np
import pandas as pd
import pytest
from rows import segments
from scipy.special import softmax

from deepsep import TSVM, Committee, load
from deepsep.classifiers.committee import student as student_module
from deepsep.classifiers.committee.student import LABEL_SMOOTHING, Student
from deepsep.core.probability import smooth_labels
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import DataError, DeepSepError, ParameterError
from deepsep.networks import NumpyNetwork
from deepsep.scoring import score_frame

CHEAP = ["logistic-regression", "tsvm"]


def committee(members=CHEAP, **settings):
    return Committee(members=members, effort="fast", n_jobs=1, random_state=0, **settings)


def partly(n=300, labels=40, **settings):
    return segments(n, labels, **settings)


def taught(X, p, *, codes=None, weight=None, seed=0):
    """Return the student of a classifier that gives these probabilities; the first rows are labelled."""
    n, c = p.shape
    codes = np.where(np.arange(n) < 2 * c, np.arange(n) % c, -1) if codes is None else codes
    rows = TrainingRows(X, codes, np.ones(n) if weight is None else weight, np.arange(c), weight is not None)
    teacher = TSVM()
    teacher.classes_, teacher.n_features_in_ = np.arange(c), X.shape[1]
    return Student.of(teacher, rows, p, np.random.default_rng(seed))


# -- what it learns ------------------------------------------------------------------------------------------


def test_a_linear_teacher_is_recovered_on_new_rows():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(3000, 6)), rng.normal(size=(1000, 6))
    W = rng.normal(size=(6, 3))
    p, expected = (softmax(rows @ W, axis=1) for rows in (X, new))
    codes = np.where(np.arange(3000) < 60, p.argmax(axis=1), -1)
    student = taught(X, p, codes=codes)
    np.testing.assert_allclose(student.predict_proba(new), expected, atol=0.1)
    assert np.abs(student.predict_proba(new) - expected).mean() < 0.02
    assert student.agreement_ > 0.96


def test_it_is_trained_on_the_committee_then_on_the_labels_too(monkeypatch):
    monkeypatch.setattr(student_module, "MAX_STUDENT_ROWS", 350)  # of 970 unlabelled rows, 194 of them held out
    phases = []

    class Listens(NumpyNetwork):
        def train(self, X, targets, **settings):
            phases.append({"X": X[np.arange(len(X))], "targets": targets, **settings})

    monkeypatch.setattr(student_module, "NumpyNetwork", Listens)
    rng = np.random.default_rng(4)
    X, p, weight = rng.normal(size=(1000, 6)), rng.dirichlet(np.ones(3), 1000), rng.uniform(0.5, 2, 1000)
    codes = np.where(np.arange(1000) < 30, np.arange(1000) % 3, -1)
    taught(X, p, codes=codes, weight=weight, seed=5)
    pool = np.random.default_rng(5).permutation(np.arange(30, 1000))[194:544]
    mean = np.average(p[pool], axis=0, weights=weight[pool])
    given = np.array([weight[:30][codes[:30] == k].sum() for k in range(3)])
    mass = np.concatenate([weight[:30] * (mean / given * given.sum())[codes[:30]], weight[pool]])
    targets = np.concatenate([smooth_labels(codes[:30], 3, LABEL_SMOOTHING), p[pool]])
    centre = np.average(X, axis=0, weights=weight)
    scale = np.sqrt(np.average(np.square(X - centre), axis=0, weights=weight))
    scaled = (X[np.concatenate([np.arange(30), pool])] - centre) / scale
    first, second = phases
    for phase, start in ((first, 30), (second, 0)):
        np.testing.assert_allclose(phase["X"], scaled[start:], atol=1e-5)
        np.testing.assert_allclose(phase["targets"], targets[start:], rtol=1e-6)
        np.testing.assert_allclose(phase["weight"], mass[start:] / mass[start:].max(), rtol=1e-6)
    assert first["epochs"] >= second["epochs"] >= 1
    assert first["lr"] > second["lr"]


def test_the_same_answer_for_all_rows_is_learned():
    X = np.random.default_rng(0).normal(size=(400, 4))
    student = taught(X, np.tile([0.2, 0.7, 0.1], (400, 1)))
    np.testing.assert_allclose(student.predict_proba(X), np.tile([0.2, 0.7, 0.1], (400, 1)), atol=0.1)
    assert student.agreement_ == 1
    assert student.accuracy_loss_ == 0


def test_agreement_is_that_of_rows_it_has_not_seen():
    rng = np.random.default_rng(0)
    X, p = rng.normal(size=(500, 10)), rng.dirichlet(np.full(4, 0.1), 500)  # nothing to learn, much to memorise
    student = taught(X, p)
    everywhere = (student.predict_proba(X).argmax(axis=1) == p.argmax(axis=1)).mean()
    assert student.n_held_out_ == 98
    assert student.agreement_ < 0.45 < everywhere
    assert 0.2 < student.accuracy_loss_ < 1 - student.agreement_


def test_a_row_of_weight_0_is_absent():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    p = softmax(X[:, :3], axis=1)
    alone = taught(X, p, weight=np.ones(300))
    beside = taught(
        np.concatenate([X, 1e6 * X]),
        np.concatenate([p, np.roll(p, 1, axis=1)]),
        codes=np.concatenate([np.where(np.arange(300) < 6, np.arange(300) % 3, -1), np.full(300, -1)]),
        weight=np.repeat([1.0, 0.0], 300),
    )
    np.testing.assert_array_equal(alone.predict_proba(X), beside.predict_proba(X))
    assert alone.agreement_ == beside.agreement_


def test_only_proportions_of_weights_count():
    rng = np.random.default_rng(1)
    X, weight = rng.normal(size=(300, 4)), rng.uniform(1, 3, 300)
    p = softmax(X[:, :3], axis=1)
    one, other = taught(X, p, weight=weight), taught(X, p, weight=2.0**200 * weight)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    assert np.abs(one.predict_proba(X) - taught(X, p).predict_proba(X)).max() > 0


# -- beside a committee --------------------------------------------------------------------------------------


def test_the_committee_does_not_depend_on_it():
    X, y, _ = partly()
    beside, alone = committee().fit(X, y), committee(student=False).fit(X, y)
    np.testing.assert_array_equal(beside.predict_proba(X), alone.predict_proba(X))
    assert alone.student_ is None
    assert alone.student_agreement_ is None
    assert beside.student_agreement_ == beside.student_.agreement_ > 0.9
    assert beside.student_.n_held_out_ == 52
    assert (beside.student_.transduction_[:40] == y[:40]).all()


def test_same_seed_same_bits():
    X, y, _ = partly()
    one, again = (committee().fit(X, y).student_ for _ in range(2))
    other = committee().set_params(random_state=1).fit(X, y).student_
    np.testing.assert_array_equal(one.predict_proba(X), again.predict_proba(X))
    assert one.agreement_ == again.agreement_
    assert np.abs(one.predict_proba(X) - other.predict_proba(X)).max() > 0


def test_a_row_gets_the_same_bits_in_any_company():
    X, y, _ = partly(1500)
    student = committee(["logistic-regression"]).fit(X, y).student_
    whole = student.predict_proba(X)
    for size in (1, 3, 17, 513):
        for start in (0, 700):
            part = student.predict_proba(np.ascontiguousarray(X[start : start + size]))
            np.testing.assert_array_equal(part, whole[start : start + size])


def test_known_shares_reach_it():
    X, y, truth = partly(1200, 60)
    shares = dict(zip(sorted(set(truth)), (0.2, 0.3, 0.5), strict=True))
    student = committee(priors=shares).fit(X, y).student_
    np.testing.assert_allclose(student.predict_proba(X[60:]).mean(axis=0), [0.2, 0.3, 0.5], atol=0.04)


@pytest.mark.parametrize(("factor", "offset"), [(1e200, 0), (1e-200, 0), (1e-3, 1e6)])
def test_rows_of_any_size(factor, offset):
    X, y, _ = partly()
    model = committee(["logistic-regression"]).fit(factor * X + offset, y)
    far = np.concatenate([factor * X + offset, np.full((1, 5), 1e300), np.zeros((1, 5))])
    assert np.isfinite(model.student_.predict_proba(far)).all()
    assert model.student_agreement_ > 0.9


def test_few_unlabeled_rows_teach_nobody():
    X, y, _ = partly(130, 40)
    model = committee().fit(X, y)
    assert model.student_ is None
    assert model.student_agreement_ is None


def test_it_reads_rows_as_its_committee_does():
    X, y, _ = partly()
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = committee().fit(frame, y)
    assert model.student_.predict(frame).shape == (300,)
    with pytest.raises(ValueError, match="feature names"):
        model.student_.predict(frame.rename(columns={"a": "z"}))
    with pytest.raises(DataError, match="NaN"):
        model.student_.predict(frame.assign(a=np.nan))


def test_it_is_not_fitted_by_itself():
    X, y, _ = partly()
    with pytest.raises(ParameterError, match="only a committee can train it"):
        Student().fit(X, y)


def test_it_scores_a_frame_if_asked():
    X, y, _ = partly()
    model = committee().fit(X, y)
    scored = score_frame(model, X, fast=True)
    np.testing.assert_array_equal(scored.filter(like="probability_"), model.student_.predict_proba(X))
    with pytest.raises(ParameterError, match="sets rest on the committee"):
        score_frame(model, X, fast=True, sets=0.9)
    with pytest.raises(ParameterError, match="has no student"):
        score_frame(model.student_, X, fast=True)


# -- saving --------------------------------------------------------------------------------------------------


def test_saved_and_loaded_it_gives_the_same_bits(tmp_path):
    X, y, _ = partly()
    X = X * np.array([1e200, 1, 1, 1, 1e-200])
    for student in (True, False):
        model = committee(student=student).fit(X, y)
        model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert again.student_agreement_ == model.student_agreement_
        if student:
            np.testing.assert_array_equal(again.student_.predict_proba(X), model.student_.predict_proba(X))
            np.testing.assert_array_equal(again.student_.transduction_, model.student_.transduction_)
            assert again.student_.accuracy_loss_ == model.student_.accuracy_loss_
            assert again.student_.n_held_out_ == 52
        else:
            assert again.student_ is None


def weights(change):
    def edit(model):
        change(model.student_.network_weights_)

    return edit


EDITS = {
    "a weight that is no number": weights(lambda W: W["encoder.4.weight"].__setitem__((0, 0), np.nan)),
    "an endless weight": weights(lambda W: W["head.bias"].__setitem__(0, np.inf)),
    "a layer too few": weights(lambda W: W.pop("head.weight")),
    "a layer too narrow": weights(lambda W: W.update({"encoder.0.weight": W["encoder.0.weight"][:, :2].copy()})),
    "an impossible agreement": lambda model: setattr(model.student_, "agreement_", 1.5),
    "no agreement": lambda model: setattr(model.student_, "agreement_", "high"),
    "other classes": lambda model: setattr(model.student_, "classes_", np.array(["a", "b", "dune"], dtype=object)),
    "no first layer": weights(lambda W: W.pop("encoder.0.weight")),
    "a layer too wide": weights(lambda W: W.update({"encoder.4.weight": np.repeat(W["encoder.4.weight"], 2, axis=0)})),
    "another model": lambda model: setattr(model, "student_", model.members_["tsvm"]),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_student_is_refused(tmp_path, edit):
    X, y, _ = partly()
    model = committee().fit(X, y)
    edit(model)
    model.save(tmp_path / "model")
    with pytest.raises(DeepSepError):
        load(tmp_path / "model")

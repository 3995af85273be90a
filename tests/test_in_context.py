"""The in-context network as a classifier: what its answers may depend on, its context, its views and its files."""

import copy
import dataclasses
import json
import pickle
import shutil
import warnings

import numpy as np
import pytest
import torch
from in_context import TINY
from safetensors.torch import load_file, save_file
from sklearn.datasets import make_blobs, make_moons

from deepsep import Committee, InContext, load, networks, save
from deepsep.classifiers.in_context.context_draw import draw_context
from deepsep.core.probability import mixture_weights
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import DeepSepWarning, LabelWarning, ModelFileError, ParameterError, VersionError
from deepsep.networks import pretrained
from deepsep.networks.components import find_components
from deepsep.networks.context_view import draw_columns, draw_member, pool
from deepsep.networks.in_context_network import InContextNetwork


def table(n=300, labeled=30, d=6, centres=3, seed=0, std=2.5):
    """Blobs of one class each; `labelled` rows have a label, the same number of each class."""
    X, truth = make_blobs(n, centers=centres, n_features=d, cluster_std=std, random_state=seed)
    y = np.full(n, -1)
    for k in range(centres):
        y[np.flatnonzero(truth == k)[: labeled // centres]] = k
    return X, y, truth


def small(**settings):
    return InContext(**{"view": "columns", "n_members": 1, "random_state": 0, "device": "cpu"} | settings)


accuracy = pytest.mark.usefixtures("shipped_network")


@pytest.fixture(scope="module")
def fitted():
    X, y, truth = table()
    return X, y, truth, small(view="both").fit(X, y)


# -- what answers may depend on ------------------------------------------------------------------------------


def test_a_row_gets_the_same_bits_alone_or_among_many(fitted):
    X, _, _, model = fitted
    many = np.concatenate([X, X[::-1], 1e5 * X, X])
    p = model.predict_proba(many)
    for i in (0, 1, 127, 128, 299, 300, 599, len(many) - 1):
        np.testing.assert_array_equal(model.predict_proba(many[i : i + 1])[0], p[i])
    np.testing.assert_array_equal(p[:300], p[300:600][::-1])
    np.testing.assert_array_equal(p[:300], model.label_distributions_)


def test_the_number_of_threads_does_not_matter(fitted):
    X, y, _, model = fitted
    before = torch.get_num_threads()
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            np.testing.assert_array_equal(small(view="both").fit(X, y).predict_proba(X), model.predict_proba(X))
            assert torch.get_num_threads() == n
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("view", ["columns", "components", "both"])
@pytest.mark.parametrize("context_size", [1500, 120])
def test_the_order_of_the_rows_does_not_matter(view, context_size):
    X, y, _ = table()
    order = np.random.default_rng(1).permutation(len(y))
    model = small(view=view, context_size=context_size).fit(X, y)
    shuffled = small(view=view, context_size=context_size).fit(X[order], y[order])
    np.testing.assert_allclose(shuffled.predict_proba(X), model.predict_proba(X), atol=1e-4)
    np.testing.assert_array_equal(np.sort(order[shuffled.context_]), np.sort(model.context_))


@accuracy
def test_the_order_of_the_columns_and_the_names_of_the_classes_matter_little():
    X, y, truth = table(std=4.0)
    right = (small().fit(X, y).transduction_ == truth)[y < 0].mean()
    turned = (small().fit(X[:, ::-1], y).transduction_ == truth)[y < 0].mean()
    names = np.array(["zebra", "ape", "lion"])
    renamed = small().fit(X, np.where(y >= 0, names[y], None)).transduction_
    assert right > 0.7
    assert turned == pytest.approx(right, abs=0.05)
    assert (renamed == names[truth])[y < 0].mean() == pytest.approx(right, abs=0.05)


@accuracy
@pytest.mark.parametrize("view", ["columns", "components"])
def test_duplicated_and_constant_columns_change_little(view):
    X, y, truth = table(std=4.0)
    right = (small(view=view).fit(X, y).transduction_ == truth)[y < 0].mean()
    with pytest.warns(DeepSepWarning, match="constant"):
        more = small(view=view).fit(np.column_stack([X, X[:, :2], np.full(len(X), 7.0)]), y)
    assert (more.transduction_ == truth)[y < 0].mean() == pytest.approx(right, abs=0.05)
    assert 8 not in more.columns_


def test_units_do_not_matter():
    X, y, _ = table()
    p = small().fit(X, y).predict_proba(X)
    np.testing.assert_allclose(small().fit(1e-8 * X + 3, y).predict_proba(1e-8 * X + 3), p, atol=1e-3)
    np.testing.assert_allclose(small().fit(1e12 * X, y).predict_proba(1e12 * X), p, atol=1e-3)


# -- hard tables ---------------------------------------------------------------------------------------------


@accuracy
def test_two_moons_with_six_labels():
    X, truth = make_moons(1006, noise=0.08, random_state=1)
    y = np.full(len(X), -1)
    for k in (0, 1):
        # The ends and the middle of each moon.
        of_class = np.flatnonzero(truth == k)
        y[of_class[np.argsort(X[of_class, 0])[[0, len(of_class) // 2, -1]]]] = k
    model = small(n_members=2).fit(X, y)
    assert (model.transduction_ == truth)[y < 0].mean() > 0.8


@accuracy
def test_one_label_per_class():
    X, y, truth = table(labeled=3, std=1.5)
    with pytest.warns(LabelWarning, match="only one labelled row"):
        model = small(view="both").fit(X, y)
    assert model.view_weights_ == {"columns": 0.6, "components": 0.4}
    assert (model.transduction_ == truth).mean() > 0.8


@accuracy
def test_no_unlabeled_rows():
    X, _, truth = table(120)
    with pytest.warns(LabelWarning, match="no unlabelled rows"):
        model = small(view="both").fit(X, truth)
    assert (model.predict(X) == truth).mean() > 0.9
    np.testing.assert_allclose(model.estimated_shares_, 1 / 3, atol=0.1)


@accuracy
@pytest.mark.parametrize("view", ["columns", "components"])
def test_one_column(view):
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=200)
    X = (rng.normal(size=200) + 4 * truth)[:, None]
    y = np.where(np.arange(200) < 20, truth, -1)
    assert (small(view=view).fit(X, y).transduction_ == truth).mean() > 0.9


@accuracy
def test_two_thousand_columns():
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=150)
    X = rng.normal(size=(150, 2000)) + 0.7 * rng.normal(size=(3, 2000))[truth]
    y = np.where(np.arange(150) < 45, truth, -1)
    model = small(view="both", n_members=2).fit(X, y)
    assert model.columns_.shape == (2, 128)
    assert (model.transduction_ == truth)[y < 0].mean() > 0.9


def test_every_member_sees_the_few_columns_that_tell_the_classes_apart():
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=400)
    X = rng.normal(size=(400, 300))
    telling = [7, 100, 299]
    X[:, telling] += 3 * np.eye(3)[truth]
    y = np.where(np.arange(400) < 60, truth, -1)
    columns = small(view="columns", n_members=6).fit(X, y).columns_
    assert columns.shape == (6, 128)
    assert all(set(telling) <= set(own) for own in columns.tolist())
    assert len(np.unique(columns)) > 200  # and others of the rest
    all_seen = small(view="columns", n_members=2).fit(X[:, :128], y).columns_
    np.testing.assert_array_equal(all_seen, [np.arange(128)] * 2)


def test_columns_are_chosen_without_the_labels_that_weigh_the_views(monkeypatch):
    n_labels = []

    def count(values, codes, rng):
        n_labels.append(len(codes))
        return np.ones(values.shape[1])

    monkeypatch.setattr("deepsep.classifiers.in_context.in_context.column_importances", count)
    X, y, _ = table(labeled=30, d=200)
    small(view="both", n_members=1).fit(X, y)
    assert n_labels[0] == 30
    assert sorted(n_labels[1:]) == [24] * 5


@accuracy
def test_a_hundred_classes():
    X, y, truth = table(1200, labeled=500, d=8, centres=100, std=0.5)
    model = small(context_size=800).fit(X, y)
    assert model.label_distributions_.shape == (1200, 100)
    np.testing.assert_allclose(model.label_distributions_.sum(1), 1)
    assert (model.transduction_ == truth)[y < 0].mean() > 0.6
    assert model.estimated_shares_.sum() == pytest.approx(1)
    assert (model.estimated_shares_interval_[:, 0] <= model.estimated_shares_interval_[:, 1]).all()


@accuracy
def test_values_far_away_and_one_row_that_dwarfs_all_others():
    X, y, truth = table(std=1.5)
    X[-1] = 1e12
    model = small().fit(X, y)
    assert (model.transduction_ == truth)[:-1].mean() > 0.85
    assert np.isfinite(model.predict_proba(np.full((1, 6), -1e300))).all()


# -- the context ---------------------------------------------------------------------------------------------


def rows_of(y, weight=None, X=None):
    X = np.arange(len(y), dtype=float)[:, None] if X is None else X
    return TrainingRows(X, y, np.ones(len(y)) if weight is None else weight, np.arange(y.max() + 1))


def drawn(y, size, weight=None, seed=0):
    context, out = draw_context(rows_of(y, weight), size, np.random.default_rng(seed))
    return context, out


def test_all_rows_that_fit_are_in_the_context():
    y = np.repeat([0, 1, -1], [4, 6, 30])
    context, out = drawn(y, 40)
    assert sorted(context) == list(range(40))
    assert out == 0
    context, _ = drawn(y, 25)
    assert sorted(context[:10]) == list(range(10))
    assert len(np.unique(context)) == 25


def test_labeled_rows_that_do_not_fit_are_drawn_evenly_from_the_classes():
    y = np.repeat([0, 1, 2, -1], [100, 50, 5, 500])
    context, out = drawn(y, 60)
    assert np.bincount(y[context[y[context] >= 0]]).tolist() == [20, 20, 5]
    assert (y[context] < 0).sum() == 15
    assert out == 155 - 45
    X = np.random.default_rng(0).normal(size=(655, 3))
    with pytest.warns(DeepSepWarning, match="155 labelled rows do not fit into a context of 60 rows.*holds 45"):
        model = small(context_size=60).fit(X, y)
    assert len(model.context_) == 60


def test_weights_are_copies():
    y = np.array([0, 0, 1, 1, -1, -1, -1])
    weight = np.array([2.0, 1, 3, 0, 0, 1, 2])
    context, _ = drawn(y, 100, weight)
    assert np.bincount(context, minlength=7).tolist() == weight.tolist()
    context, _ = drawn(y, 100, weight / 1000)  # the scale of small weights does not matter
    assert len(context) >= 5
    often = np.zeros(7)
    for seed in range(200):
        context, _ = drawn(y, 6, np.array([1.0, 1, 1, 1, 1, 2, 5]), seed)
        often += np.bincount(context, minlength=7)
    assert often[6] > 2 * often[5] > 2 * often[4]


def test_weights_equal_repeated_rows():
    X, y, _ = table(90)
    weight = np.random.default_rng(0).integers(1, 4, size=90)
    weighted = small(view="both").fit(X, y, sample_weight=weight)
    repeated = small(view="both").fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5)


def test_a_context_too_small_for_the_classes():
    X, y, _ = table()
    with pytest.raises(ParameterError, match="context_size=2; pass at least 3"):
        small(context_size=2).fit(X, y)


# -- views, priors and shares --------------------------------------------------------------------------------


def test_both_views_are_averaged(fitted):
    _, _, _, model = fitted
    assert sum(model.view_weights_.values()) == pytest.approx(1)
    mixed = sum(model.view_weights_[name] * np.log(p + 1e-300) for name, p in model.view_distributions_.items())
    clear = np.ptp(np.sort(mixed, axis=1)[:, -2:], axis=1) > 1e-6
    np.testing.assert_array_equal(mixed.argmax(1)[clear], model.label_distributions_.argmax(1)[clear])
    np.testing.assert_allclose(model.label_distributions_.sum(1), 1)


def test_opinions_are_pooled():
    p, q = np.array([[0.5, 0.4, 0.1]]), np.array([[0.1, 0.4, 0.5]])
    np.testing.assert_allclose(pool([p], np.ones(1)), p)
    np.testing.assert_allclose(pool([p, p], np.full(2, 0.5)), p)
    geometric = np.sqrt(p * q)
    np.testing.assert_allclose(pool([p, q], np.full(2, 0.5)), geometric / geometric.sum())
    sure = pool([np.array([[1.0, 0.0]]), np.array([[0.4, 0.6]])], np.full(2, 0.5))
    assert 0.9 < sure[0, 0] < 1, "no opinion rules out a class on its own"


def test_mixture_weights_are_equal_without_evidence_and_follow_it():
    half = np.full((2, 50), 0.5)
    np.testing.assert_allclose(mixture_weights(half, np.ones(50)), 0.5, atol=1e-6)
    better = mixture_weights(np.stack([np.full(50, 0.9), np.full(50, 0.3)]), np.ones(50))
    assert better[0] > 0.9
    few = mixture_weights(np.array([[0.9], [0.3]]), np.ones(1))
    assert 0.5 < few[0] < better[0]
    doubled = mixture_weights(np.array([[0.9, 0.4], [0.3, 0.6]]), np.array([2.0, 1]))
    repeated = mixture_weights(np.array([[0.9, 0.9, 0.4], [0.3, 0.3, 0.6]]), np.ones(3))
    np.testing.assert_allclose(doubled, repeated, atol=1e-5)


def test_components_have_a_direction():
    rows = torch.randn(1, 50, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    axes = find_components(rows, 4).axes
    assert (axes.gather(1, axes.abs().argmax(1, keepdim=True)) > 0).all()
    wide = torch.cat([rows, rows], 2)[:, :6]  # more columns than rows: from products of rows instead
    again = find_components(wide, 3)
    products = again.axes.transpose(1, 2) @ again.axes
    torch.testing.assert_close(products, torch.eye(3, dtype=torch.float64)[None])


def test_priors_are_the_mean_of_the_probabilities():
    X, y, _ = table(std=4.0)
    shares = {0: 0.7, 1: 0.2, 2: 0.1}
    model = small(priors=shares).fit(X, y)
    np.testing.assert_allclose(model.label_distributions_[y < 0].mean(0), list(shares.values()), atol=1e-5)
    plain = small().fit(X, y)
    np.testing.assert_array_equal(model.estimated_shares_, plain.estimated_shares_)
    with pytest.raises(ParameterError, match="priors"):
        small(priors={0: 0.5, 1: 0.5}).fit(X, y)


@accuracy
def test_shares_are_read_off_the_unlabeled_rows():
    rng = np.random.default_rng(0)
    truth = np.concatenate([np.repeat([0, 1], 15), rng.choice(2, p=[0.8, 0.2], size=600)])
    X = rng.normal(size=(630, 3)) + 3 * truth[:, None]
    y = np.where(np.arange(630) < 30, truth, -1)  # as many labels of each class
    model = small().fit(X, y)
    share = (truth[30:] == 0).mean()
    assert model.estimated_shares_[0] == pytest.approx(share, abs=0.06)
    (low, high), _ = model.estimated_shares_interval_
    assert 0.5 < low < share < high < 0.95


def test_members_share_out_columns_and_classes():
    rng = np.random.default_rng(0)
    columns = draw_columns(np.arange(100), 5, rng, most=40)
    assert np.bincount(columns.ravel(), minlength=100).tolist() == [2] * 100
    importances = np.array([1.0, 2.0, 3.0])
    pairs = draw_columns(np.arange(3), 20_000, rng, importances=importances, most=2)
    # The chance that a column is the one left out: each of the others drawn first, and then the other one.
    out = [sum(a / 6 * b / (6 - a) for a, b in ((q, r), (r, q))) for q, r in ((2, 3), (1, 3), (1, 2))]
    seen = np.bincount(pairs.ravel(), minlength=3) / len(pairs)
    np.testing.assert_allclose(seen, 1 - np.array(out), atol=4 * 0.5 / 20_000**0.5)
    member = draw_member(70, np.arange(5), 16, rng)
    assert (member.codings > 0).sum(0).tolist() == [1] * 70
    assert member.codings.max() < 32
    assert draw_member(32, np.arange(5), 16, rng).codings.shape == (1, 32)


# -- copies and files ----------------------------------------------------------------------------------------


def test_copies_predict_the_same_bits(fitted):
    X, _, _, model = fitted
    data = pickle.dumps(model)
    assert len(data) < 200_000  # neither the weights nor what the network has read
    for other in (pickle.loads(data), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))


def test_a_context_is_read_once(tmp_path, monkeypatch):
    read, encode = [], InContextNetwork.encode
    monkeypatch.setattr(InContextNetwork, "encode", lambda *given: read.append(given) or encode(*given))
    X, y, _ = table()
    model = small(view="columns", n_members=2).fit(X, y)
    p = [model.predict_proba(X[:3]) for _ in range(2)]
    assert len(read) == 2
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert len(read) == 2
    p += [again.predict_proba(X[:3]) for _ in range(2)]
    assert len(read) == 4
    for each in p[1:]:
        np.testing.assert_array_equal(each, p[0])


def test_a_saved_model_holds_its_context_and_names_its_weights(tmp_path):
    X, y, _ = table()
    model = small(view="both", n_members=2, context_size=80, priors={0: 0.5, 1: 0.3, 2: 0.2}).fit(X, y)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    for name in ("context_", "columns_", "estimated_shares_", "estimated_shares_interval_", "prior_shift_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.view_weights_ == model.view_weights_
    assert load_file(tmp_path / "model" / "arrays.safetensors")["context_rows"].shape == (80, 6)
    assert sum(path.stat().st_size for path in (tmp_path / "model").rglob("*") if path.is_file()) < 100_000
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    assert manifest["estimator"]["state"]["weights"] == pretrained.WEIGHTS_SHA256


@pytest.mark.parametrize("identity", [16, 20])
def test_a_model_of_other_weights_opens_and_says_so(fitted, tmp_path, monkeypatch, identity):
    X, _, _, model = fitted
    save(model, tmp_path / "model")
    torch.manual_seed(1)
    other = InContextNetwork(dataclasses.replace(TINY, identity=identity)).eval().requires_grad_(False)
    for weight in other.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=2 / weight.shape[1] ** 0.5)
    monkeypatch.setitem(vars(networks), "pretrained_network", lambda device: other)
    monkeypatch.setattr("deepsep.networks.WEIGHTS_SHA256", "0" * 64, raising=False)
    again_says = pytest.warns(DeepSepWarning, match="other weights .* probabilities are new ones, and the accuracy")
    with again_says:
        again = load(tmp_path / "model")
    p = again.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert np.abs(p - model.predict_proba(X)).max() > 0.01
    np.testing.assert_array_equal(again.context_, model.context_)
    save(again, tmp_path / "again")  # which does not make them the weights of the fit
    with again_says:
        twice = load(tmp_path / "again")
    np.testing.assert_array_equal(twice.predict_proba(X), p)


def test_a_committee_of_other_weights_opens_too(tmp_path, monkeypatch):
    X, y, _ = table(60)
    members = {"network": small(context_size=40), "logistic-regression": "logistic-regression"}
    model = Committee(members=members, effort="fast", n_jobs=1, student=False, random_state=0).fit(X, y)
    save(model, tmp_path / "model")
    monkeypatch.setattr("deepsep.networks.WEIGHTS_SHA256", "0" * 64, raising=False)
    with pytest.warns(DeepSepWarning, match="other weights .* accuracy that it stated after the fit does not hold"):
        again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))  # the same network here


@pytest.fixture
def weights(shipped_network, tmp_path, monkeypatch):
    """A copy of the weights in the place of the package's."""
    place = tmp_path / "weights.safetensors"
    shutil.copy(pretrained.WEIGHTS, place)
    monkeypatch.setattr(pretrained, "WEIGHTS", place)
    pretrained.pretrained_network.cache_clear()
    yield place
    pretrained.pretrained_network.cache_clear()


def test_weights_missing_truncated_or_of_another_version(weights):
    X, y, _ = table(60)
    whole, tensors = weights.read_bytes(), load_file(weights)
    weights.unlink()
    with pytest.raises(ModelFileError, match=r"missing.*install deepsep again"):
        small().fit(X, y)
    weights.write_bytes(whole[:-1000])
    with pytest.raises(ModelFileError, match="damaged"):
        small().fit(X, y)
    weights.write_bytes(whole.replace(b'"format_version":"1"', b'"format_version":"9"'))
    with pytest.raises(VersionError, match="has format 9"):
        small().fit(X, y)
    weights.write_bytes(whole)
    header = int.from_bytes(whole[:8], "little")
    metadata = json.loads(whole[8 : 8 + header])["__metadata__"]
    tensors["out.bias"] = tensors["out.bias"] + 1
    save_file(tensors, weights, metadata=metadata)
    with pytest.raises(ModelFileError, match="holds other weights"):
        small().fit(X, y)


def test_the_weights_are_read_once(weights):
    X, y, _ = table(60)
    model = small().fit(X, y)
    weights.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)
        small().fit(X, y)


def test_bad_settings():
    X, y, _ = table(60)
    for settings, words in (
        ({"view": "rows"}, "view='rows'"),
        ({"n_members": 0}, "n_members=0"),
        ({"context_size": 1}, "context_size=1"),
        ({"device": "tpu"}, "device='tpu'"),
    ):
        with pytest.raises(ParameterError, match=words):
            small(**settings).fit(X, y)

"""Networks that have been trained: a row gets the same bits, alone or in whatever batch."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import make_blobs

from deepsep import DeepSep, method, methods
from deepsep.networks import NetworkAverage, NumpyNetwork
from deepsep.networks.frozen import FrozenNetwork, next_rows, on_grid
from deepsep.zoo.network_method import NetworkMethod

SHORT = {"steps": 20, "rounds": 1, "initial_epochs": 3, "propensity_epochs": 1, "label_epochs": 1, "folds": 2}
NETWORK_METHODS = [name for name in methods() if isinstance(method(name), NetworkMethod)]
BATCHES = (1, 2, 3, 7, 16, 17, 100, 513, 1200)


def trained(d=9, c=12, hidden=(32, 8), seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    net = NumpyNetwork(d, c, hidden=hidden, rng=rng)
    X = rng.normal(size=(200, d)) * scale
    net.train(X, rng.dirichlet(np.ones(c), 200), loss="kl", epochs=3, lr=0.01, batch_size=32, rng=rng)
    return net


def assert_same_bits_in_any_company(function, X):
    """Rows 600 to 604 of X, alone, and at the start, the end and the middle of batches of many sizes."""
    whole = function(X)
    for at in range(600, 605):
        for size in BATCHES:
            for place in {0, size // 2, size - 1}:
                start = at - place
                if start < 0 or start + size > len(X):
                    continue
                batch = np.ascontiguousarray(X[start : start + size])
                assert function(batch)[place].tobytes() == whole[at].tobytes(), (size, place)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(function(X[order]), whole[order])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*NETWORK_METHODS, "deepsep"])
def test_a_row_gets_the_same_bits_in_any_company(name, dtype):
    X, codes = make_blobs(1900, centers=3, n_features=7, cluster_std=4.0, random_state=0)
    X = X.astype(dtype)
    model = method(name, random_state=0)
    model.set_params(**{key: value for key, value in SHORT.items() if key in model.get_params()})
    model.fit(X[:150], np.where(np.arange(150) < 40, codes[:150], -1))
    assert_same_bits_in_any_company(model.predict_proba, X)
    if name == "deepsep":
        assert_same_bits_in_any_company(model.transform, X)


@pytest.mark.parametrize("hidden", [(5,), (16, 8, 4)])
def test_plain_layers_are_the_same_network(hidden):
    network, X = FrozenNetwork(trained(hidden=hidden).state()), np.random.default_rng(1).normal(size=(50, 9))
    *inner, (W, b) = network.plain_layers()
    x = X
    for weights, bias in inner:
        x = np.tanh(x @ weights + bias)
    np.testing.assert_allclose(softmax(x @ W + b, axis=1), network.predict_proba(on_grid(X)).T, atol=1e-6)


@pytest.mark.parametrize("hidden", [(5,), (33, 17), (128, 32), (16, 8, 4)])
def test_every_depth_and_many_classes(hidden):
    net = trained(hidden=hidden)
    X = np.random.default_rng(1).standard_t(2, size=(1900, 9)).astype(np.float32)
    X[601] *= 1e6
    X[602] = 0
    assert_same_bits_in_any_company(net.predict_proba, X)
    assert_same_bits_in_any_company(net.embed, X)
    average = NetworkAverage([net.state()] * 3, np.full(3, 1 / 3), np.full(9, 1e9), np.full(9, 1e5))
    assert_same_bits_in_any_company(average.predict_proba, X.astype(np.float64) * 1e5 + 1e9)


def test_encoders_of_ones_own():
    torch = pytest.importorskip("torch")
    X, codes = make_blobs(1900, centers=3, n_features=7, cluster_std=4.0, random_state=0)
    y = np.where(np.arange(150) < 40, codes[:150], -1)

    def encoder():
        return torch.nn.Sequential(
            torch.nn.Linear(7, 33), torch.nn.ReLU(), torch.nn.BatchNorm1d(33), torch.nn.Linear(33, 10), torch.nn.Tanh()
        )

    short = {key: value for key, value in SHORT.items() if key in DeepSep().get_params()}
    model = DeepSep(encoder=encoder, device="cpu", balance=True, random_state=0, **short).fit(X[:150], y)
    assert_same_bits_in_any_company(model.predict_proba, X)
    assert_same_bits_in_any_company(model.transform, X)


def test_both_back_ends_give_the_same_bits_on_the_cpu():
    pytest.importorskip("torch")
    from deepsep.networks import TorchNetwork

    net = trained()
    twin = TorchNetwork(9, 12, hidden=(32, 8), rng=np.random.default_rng(5))
    twin.load_state(net.state())
    X = np.random.default_rng(1).normal(size=(700, 9))
    np.testing.assert_array_equal(twin.predict_proba(X), net.predict_proba(X))
    np.testing.assert_array_equal(twin.embed(X), net.embed(X))


@pytest.mark.parametrize("d", [3, 400])
def test_sums_are_exact(d):
    rng = np.random.default_rng(0)
    network = FrozenNetwork(trained(d=d, scale=10.0 ** rng.uniform(-6, 6, d)).state())
    rows = on_grid(10.0 ** rng.uniform(-9, 9, size=(4, d)) * rng.choice([-1, 1], size=(4, d)))
    for W in network.layers:
        for x, sums in zip(rows, rows @ W, strict=True):
            for w, total in zip(W.T, sums, strict=True):
                terms = [Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), w.tolist(), strict=True)]
                assert sum(terms) == Fraction(float(total))
        rows = next_rows(rows, W)


def test_grids_are_as_fine_as_single_precision():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 20)) * 10.0 ** rng.uniform(-3, 8, size=(300, 1))
    largest = np.abs(x).max(axis=1, keepdims=True)
    assert (np.abs(on_grid(x)[:, :-1] - x) / np.maximum(largest, 1)).max() <= 2.0**-24
    net = trained(hidden=(128, 32))
    state = {name: value.astype(np.float64) for name, value in net.state().items()}
    X = rng.normal(size=(500, 9)).astype(np.float32)
    h = np.tanh(X @ state["encoder.0.weight"].T + state["encoder.0.bias"])
    h = (h - state["encoder.2.running_mean"]) / np.sqrt(state["encoder.2.running_var"] + 1e-5)
    h = h * state["encoder.2.weight"] + state["encoder.2.bias"]
    h = np.tanh(h @ state["encoder.4.weight"].T + state["encoder.4.bias"])
    np.testing.assert_allclose(net.embed(X), h, atol=3e-6)
    z = np.exp(h @ state["head.weight"].T + state["head.bias"])
    np.testing.assert_allclose(net.predict_proba(X), z / z.sum(axis=1, keepdims=True), atol=5e-7)


@pytest.mark.parametrize("hidden", [(16,), (16, 8), (16, 8, 4)])
def test_the_head_of_an_embedding_is_the_prediction(hidden):
    net, X = trained(hidden=hidden), np.random.default_rng(0).normal(size=(50, 9))
    state, h = net.state(), net.embed(X)
    assert h.dtype == np.float32
    assert h.shape == (50, hidden[-1])
    z = np.exp(h @ state["head.weight"].T + state["head.bias"])
    np.testing.assert_allclose(net.predict_proba(X), z / z.sum(axis=1, keepdims=True), atol=1e-6)


def test_rows_far_away_saturate():
    net = trained()
    X = np.random.default_rng(0).normal(size=(6, 9)) * 10.0 ** np.array([[30], [38], [-30], [-44], [0], [8]])
    with np.errstate(over="ignore"):
        X = X.astype(np.float32)
    X[~np.isfinite(X)] = np.finfo(np.float32).max
    for out in (net.embed(X), net.predict_proba(X)):
        assert np.isfinite(out).all()
    average = NetworkAverage([net.state()], np.ones(1), np.zeros(9), np.ones(9))
    assert np.isfinite(average.predict_proba(X.astype(np.float64) * 1e200)).all()

"""The networks in NumPy and in torch, against autograd and against one another."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

from deepsep.networks import NumpyNetwork
from deepsep.networks.numpy_network import Adam, BatchViews, Chunk, Dropout, FlatParameters, Step

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from deepsep.networks import TorchNetwork, default_encoder  # noqa: E402

D, C = 7, 3
L2 = (3e-2, 2e-2, 1e-2)
PHASE = {"loss": "kl", "epochs": 4, "lr": 1e-2, "batch_size": 16}


def data(n=50, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D), dtype=np.float32)
    targets = rng.dirichlet(np.ones(C), n).astype(np.float32)
    weight = rng.integers(1, 4, n).astype(np.float32)
    return X, targets, weight


def numpy_net(seed=1, **options):
    return NumpyNetwork(D, C, rng=np.random.default_rng(seed), **options)


def torch_net(seed=1, **options):
    return TorchNetwork(D, C, rng=np.random.default_rng(seed), **options)


def stir(net, seed=5):
    """Give a network parameters that are nowhere 0 or 1, so that no gradient is trivially right."""
    rng = np.random.default_rng(seed)
    state = net.state()
    for name, value in state.items():
        if value.dtype == np.float32:
            noise = rng.standard_normal(value.shape, dtype=np.float32)
            state[name] = value + np.float32(0.3) * (np.abs(noise) if name.endswith("var") else noise)
    net.load_state(state)
    return state


def assert_states_close(first, second, *, rtol=1e-4, atol=2e-5):
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=rtol, atol=atol, err_msg=name)


def numpy_gradient(net, X, targets, weight, mask, loss, *, running=None):
    """Gradient of the loss, without the penalty, as a state-like dict of arrays."""
    dropout = Dropout(net.dropout, net.widths[1], seed=0)
    chunk = Chunk(X, targets, weight, batch_size=len(X), dropout=dropout)
    chunk.fill(np.arange(len(X)))
    (batch,) = chunk.batches
    if mask is not None:
        batch.kept[...] = mask
    gradient = FlatParameters(net.widths)
    step = Step(len(X), net.widths, loss=loss, scale=dropout.scale)
    step.gradient(net.parameters, gradient, batch, running)
    named = {"encoder.2.weight": gradient.gamma, "encoder.2.bias": gradient.beta}
    for name, W, b in zip(net.layer_names(), gradient.W, gradient.b, strict=True):
        named[f"{name}.weight"], named[f"{name}.bias"] = W.T, b
    return named


@pytest.mark.parametrize("n", [5, 40])  # fewer and more rows than features: two ways to apply the batch norm's scale
@pytest.mark.parametrize("loss", ["kl", "mse"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("hidden", [(11, 6), (9,), (8, 5, 4)])
def test_gradient_is_that_of_autograd(n, loss, weighted, hidden):
    X, targets, weight = data(n)
    w = weight if weighted else np.ones(n, np.float32)
    net = numpy_net(hidden=hidden)
    state = stir(net)
    mask = np.random.default_rng(3).integers(0, 2, (n, hidden[0])).astype(np.uint8)
    ours = numpy_gradient(net, X, targets, weight if weighted else None, mask, loss)

    # The network written out in float64, with no part of the library in it.
    t = {name: torch.tensor(value, dtype=torch.float64, requires_grad=value.ndim > 0) for name, value in state.items()}
    w64, x, goals = (torch.tensor(a, dtype=torch.float64) for a in (w, X, targets))
    h = torch.tanh(x @ t["encoder.0.weight"].T + t["encoder.0.bias"])
    mean, var = h.mean(0), h.var(0, correction=0)  # of all rows alike, whatever their weights
    h = (h - mean) / torch.sqrt(var + 1e-5) * t["encoder.2.weight"] + t["encoder.2.bias"]
    h = h * torch.tensor(mask) * 2
    for name in net.layer_names()[1:-1]:
        h = torch.tanh(h @ t[f"{name}.weight"].T + t[f"{name}.bias"])
    p = torch.softmax(h @ t["head.weight"].T + t["head.bias"], 1)
    each = (goals * torch.log(goals / p)).sum(1) if loss == "kl" else ((p - goals) ** 2).mean(1)
    ((w64 * each).sum() / w64.sum()).backward()

    for name, value in ours.items():
        np.testing.assert_allclose(value, t[name].grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)
        assert np.abs(t[name].grad.numpy()).max() > 1e-4, f"{name} has no gradient to compare"


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["kl", "mse"])
@pytest.mark.parametrize("l2", [0.0, L2])
def test_training_without_dropout_is_the_same_in_numpy_and_torch(loss, weighted, l2):
    # 50 rows in batches of 16: three full batches and one of two rows. This holds Adam, the penalty, the order of
    # the rows and the running statistics of the two back ends against each other.
    X, targets, weight = data()
    phase = {**PHASE, "loss": loss, "weight": weight if weighted else None}
    ours, twin = numpy_net(dropout=0.0, l2=l2), torch_net(dropout=0.0, l2=l2)
    assert_states_close(twin.state(), ours.state(), rtol=0, atol=0)
    losses = ours.train(X, targets, rng=np.random.default_rng(2), **phase)
    np.testing.assert_allclose(losses, twin.train(X, targets, rng=np.random.default_rng(2), **phase), rtol=1e-4)
    assert_states_close(twin.state(), ours.state(), atol=2e-4)
    assert ours.state()["encoder.2.num_batches_tracked"] == 16


def test_adam_is_that_of_torch():
    X, targets, _ = data(12)
    net = numpy_net(dropout=0.0, l2=L2)
    layers = nn.Sequential(*default_encoder(D, dropout=0.0), nn.Linear(32, C))
    state = net.state()
    with torch.no_grad():
        for (name, parameter), ours in zip(layers.named_parameters(), state_parameters(state), strict=True):
            assert tuple(parameter.shape) == ours.shape, name
            parameter.copy_(torch.tensor(ours))
    optimiser = torch.optim.Adam(layers.parameters(), lr=1e-2)
    weights = [parameter for parameter in layers.parameters() if parameter.ndim == 2]
    layers.train()
    for _ in range(8):
        optimiser.zero_grad()
        scores = torch.log_softmax(layers(torch.tensor(X)), 1)
        loss = nn.functional.kl_div(scores, torch.tensor(targets), reduction="batchmean")
        (loss + sum(l2 * (W**2).sum() for l2, W in zip(L2, weights, strict=True))).backward()
        optimiser.step()
    net.train(X, targets, loss="kl", epochs=8, lr=1e-2, batch_size=12, rng=np.random.default_rng(0))
    for (name, parameter), ours in zip(layers.named_parameters(), state_parameters(net.state()), strict=True):
        np.testing.assert_allclose(ours, parameter.detach().numpy(), rtol=1e-3, atol=1e-4, err_msg=name)


def test_adam_is_that_of_torch_for_gradients_of_every_size():
    # Where gradients are as small as ε, its place in the formula shows.
    rng = np.random.default_rng(0)
    parameters, decay = FlatParameters((2, 3, 2)), FlatParameters((2, 3, 2))
    parameters.flat[...] = rng.standard_normal(parameters.flat.size)
    twin = torch.tensor(parameters.flat.copy(), requires_grad=True)
    optimiser = torch.optim.Adam([twin], lr=1e-2)
    adam = Adam(parameters, decay, lr=1e-2)
    scale = 10.0 ** rng.uniform(-10, 2, parameters.flat.size)
    for _ in range(20):
        gradient = (scale * rng.standard_normal(scale.size)).astype(np.float32)
        twin.grad = torch.tensor(gradient)
        optimiser.step()
        adam.gradient.flat[...] = gradient
        adam.step()
    np.testing.assert_allclose(parameters.flat, twin.detach().numpy(), rtol=1e-5, atol=1e-5)


def state_parameters(state):
    names = ["encoder.0", "encoder.2", "encoder.4", "head"]
    return [state[f"{name}.{kind}"] for name in names for kind in ("weight", "bias")]


@pytest.mark.parametrize("make", [numpy_net, torch_net])
def test_running_statistics_are_those_of_torch(make):
    X, targets, _ = data(20)
    net = make(dropout=0.0)
    first = net.state()
    net.train(X, targets, loss="kl", epochs=1, lr=1e-2, batch_size=20, rng=np.random.default_rng(0))
    norm = nn.BatchNorm1d(128)
    activations = np.tanh(X @ first["encoder.0.weight"].T + first["encoder.0.bias"])
    norm(torch.tensor(activations))
    after = net.state()
    np.testing.assert_allclose(after["encoder.2.running_mean"], norm.running_mean, atol=1e-6)
    np.testing.assert_allclose(after["encoder.2.running_var"], norm.running_var, atol=1e-6)


@pytest.mark.parametrize("loss", ["kl", "mse"])
def test_a_weight_of_k_is_k_copies_where_moments_are_fixed(loss):
    X, targets, weight = data(30)
    copies = np.repeat(np.arange(30), weight.astype(int))
    net = numpy_net(dropout=0.0, hidden=(11, 6))
    stir(net)
    weighted = numpy_gradient(net, X, targets, weight, None, loss, running=net.running)
    copied = numpy_gradient(net, X[copies], targets[copies], None, None, loss, running=net.running)
    even = numpy_gradient(net, X, targets, None, None, loss, running=net.running)
    for name, value in copied.items():
        np.testing.assert_allclose(weighted[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
        assert np.abs(even[name] - value).max() > 1e-4, f"weights have no part in {name}"


def test_a_weight_of_k_is_k_copies_without_batch_norm():
    X, targets, weight = data(30)
    weight[::5] = 0
    copies = np.repeat(np.arange(30), weight.astype(int))
    phase = {"loss": "mse", "epochs": 5, "lr": 1e-2, "batch_size": 1000, "rng": np.random.default_rng(0)}
    encoder = nn.Sequential(nn.Linear(D, 8), nn.Tanh())
    weighted, copied, even = (torch_net(encoder=encoder, l2=1e-2) for _ in range(3))
    losses = weighted.train(X, targets, weight=weight, **phase)
    np.testing.assert_allclose(losses, copied.train(X[copies], targets[copies], **phase), rtol=1e-5)
    assert_states_close(weighted.state(), copied.state())
    even.train(X, targets, **phase)
    assert np.abs(even.predict_proba(X) - weighted.predict_proba(X)).max() > 1e-3


@pytest.mark.parametrize("make", [numpy_net, torch_net])
@pytest.mark.parametrize("value", [0.01, 300.0])
def test_equal_weights_are_none(make, value):
    X, targets, _ = data()
    first, second = make(dropout=0.0, l2=L2), make(dropout=0.0, l2=L2)
    losses = first.train(X, targets, weight=np.full(50, value), rng=np.random.default_rng(0), **PHASE)
    np.testing.assert_allclose(losses, second.train(X, targets, rng=np.random.default_rng(0), **PHASE), rtol=1e-4)
    assert_states_close(first.state(), second.state(), atol=2e-4)


@pytest.mark.parametrize("make", [numpy_net, torch_net])
def test_batch_norm_counts_rows_of_unequal_weights_alike(make):
    X, targets, _ = data()
    weight = 10.0 ** np.random.default_rng(0).uniform(-3, 3, 50)
    phase = {**PHASE, "lr": 0.0}  # so that all that moves are the running moments
    first, second = make(), make()
    losses = first.train(X, targets, weight=weight, rng=np.random.default_rng(0), **phase)
    assert abs(losses[0] - second.train(X, targets, rng=np.random.default_rng(0), **phase)[0]) > 1e-3
    assert_states_close(first.state(), second.state(), rtol=0, atol=0)
    start = make().state()
    assert np.abs(first.state()["encoder.2.running_var"] - start["encoder.2.running_var"]).max() > 0.1


@pytest.mark.parametrize("make", [numpy_net, torch_net])
def test_rows_of_weight_zero_take_no_place_in_a_batch(make):
    X, targets, weight = data()
    weight[::3] = 0
    present = weight > 0
    first, second = make(), make()
    first.train(X, targets, weight=weight, rng=np.random.default_rng(0), **PHASE)
    second.train(X[present], targets[present], weight=weight[present], rng=np.random.default_rng(0), **PHASE)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))


def test_evaluation_is_the_same_from_the_same_state():
    X, _, _ = data(5000)  # more rows than pass together
    ours, twin = numpy_net(), torch_net(seed=9)
    twin.load_state(stir(ours))
    assert ours.embed(X).dtype == ours.predict_proba(X).dtype == np.float32
    np.testing.assert_allclose(twin.embed(X), ours.embed(X), atol=2e-6)
    np.testing.assert_allclose(twin.predict_proba(X), ours.predict_proba(X), atol=2e-6)
    np.testing.assert_allclose(ours.predict_proba(X).sum(1), 1, atol=1e-6)
    assert ours.embed(X[:0]).shape == twin.embed(X[:0]).shape == (0, 32)
    # One row at a time is the same: nothing of a batch enters.
    np.testing.assert_allclose(ours.predict_proba(X[:1]), ours.predict_proba(X)[:1], atol=1e-6)


@pytest.mark.parametrize("make", [numpy_net, torch_net])
def test_probabilities_of_extreme_scores_are_finite(make):
    X, _, _ = data(10)
    net = make()
    state = net.state()
    state["head.weight"] = state["head.weight"] * np.float32(1e5)
    net.load_state(state)
    proba = net.predict_proba(X)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-6)


@pytest.mark.parametrize("make", [numpy_net, torch_net])
def test_state_is_a_copy_and_comes_back(make):
    X, targets, _ = data()
    net, other = make(), make(seed=8)
    state = net.state()
    kept = {name: value.copy() for name, value in state.items()}
    net.train(X, targets, rng=np.random.default_rng(0), **PHASE)
    assert_states_close(state, kept, rtol=0, atol=0)
    assert np.abs(net.state()["head.weight"] - kept["head.weight"]).max() > 1e-3
    other.load_state(net.state())
    np.testing.assert_array_equal(other.predict_proba(X), net.predict_proba(X))
    net.load_state(state)
    assert_states_close(net.state(), kept, rtol=0, atol=0)
    assert {value.dtype for value in state.values()} == {np.dtype(np.float32), np.dtype(np.int64)}
    with pytest.raises(ValueError, match=r"encoder\.4"):
        net.load_state(make(hidden=(128,)).state())
    with pytest.raises(ValueError, match="shape"):
        net.load_state(make(hidden=(128, 31)).state())


def test_the_same_seed_gives_the_same_bits():
    X, targets, weight = data()
    for make in (numpy_net, torch_net):
        runs = []
        for seed in (0, 0, 1):
            net = make()
            losses = net.train(X, targets, weight=weight, rng=np.random.default_rng(seed), **PHASE)
            runs.append((losses, net.predict_proba(X)))
        assert runs[0][0] == runs[1][0]
        np.testing.assert_array_equal(runs[0][1], runs[1][1])
        assert np.abs(runs[0][1] - runs[2][1]).max() > 1e-4


def test_global_state_is_left_alone():
    X, targets, _ = data()

    def snapshot():
        return (
            torch.get_rng_state().numpy().tobytes(),
            np.random.get_state()[1].tobytes(),  # noqa: NPY002
            np.random.get_state()[2],  # noqa: NPY002
            torch.get_num_threads(),
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(),
        )

    before = snapshot()
    for net in (numpy_net(), torch_net(), torch_net(encoder=lambda: nn.Sequential(nn.Linear(D, 4), nn.Dropout()))):
        net.train(X, targets, rng=np.random.default_rng(0), **PHASE)
        net.predict_proba(X)
    default_encoder(D)
    assert snapshot() == before


@pytest.mark.parametrize("make", [numpy_net, torch_net])
@pytest.mark.parametrize(("n", "batch_size"), [(1, 16), (17, 16), (5, 1)])
def test_a_batch_of_one_row_uses_the_running_statistics(make, n, batch_size):
    X, targets, weight = data(n)
    net = make()
    before = net.state()
    net.train(X, targets, weight=weight, rng=np.random.default_rng(0), **{**PHASE, "batch_size": batch_size})
    after = net.state()
    assert all(np.isfinite(value).all() for value in after.values())
    assert np.abs(after["encoder.0.weight"] - before["encoder.0.weight"]).max() > 1e-4
    full = 4 * (n // batch_size) if batch_size > 1 else 0
    assert after["encoder.2.num_batches_tracked"] == full


def test_a_batch_of_one_row_is_the_same_in_numpy_and_torch():
    X, targets, _ = data(17)
    ours, twin = numpy_net(dropout=0.0), torch_net(dropout=0.0)
    for net in (ours, twin):
        net.train(X, targets, rng=np.random.default_rng(0), **PHASE)
    assert_states_close(twin.state(), ours.state(), atol=2e-4)


@pytest.mark.parametrize("rate", [0.5, 0.25, 0.1])
def test_dropout_keeps_the_mean(rate):
    dropout = Dropout(rate, 128, seed=0)
    kept = np.empty((2000, 128), np.uint8)
    dropout.draw(kept)
    assert set(np.unique(kept)) == {0, 1}
    assert kept.mean() == pytest.approx(1 - rate, abs=4 * np.sqrt(rate * (1 - rate) / kept.size))
    assert dropout.scale == pytest.approx(1 / (1 - rate), rel=1e-4)
    # Neighbours, in a row and in a column, are dropped independently.
    for one, other in ((kept[:, 1:], kept[:, :-1]), (kept[1:], kept[:-1])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.01


def test_every_row_is_met_once_in_an_epoch():
    # Rows in several chunks, the last of them short: the losses of an epoch with a rate of 0 are those of the rows.
    n = 1100
    X, targets, weight = data(n)
    net = numpy_net(dropout=0.0)
    (loss,) = net.train(
        X, targets, weight=weight, loss="mse", epochs=1, lr=0.0, batch_size=n, rng=np.random.default_rng(0)
    )
    (in_batches,) = net.train(
        X, targets, weight=weight, loss="mse", epochs=1, lr=0.0, batch_size=1, rng=np.random.default_rng(0)
    )
    direct = np.average(((net.predict_proba(X) - targets) ** 2).mean(1), weights=weight)
    assert in_batches == pytest.approx(direct, rel=1e-5)
    assert loss != pytest.approx(direct, rel=1e-5)  # normalised with the batch's own statistics


@pytest.mark.parametrize("make", [numpy_net, torch_net])
def test_it_learns_and_reports_each_epoch(make):
    X, _, _ = data(400)
    labels = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
    targets = np.eye(C, dtype=np.float32)[labels]
    seen = []
    net = make(l2=1e-5)
    losses = net.train(
        X,
        targets,
        loss="kl",
        epochs=80,
        lr=1e-2,
        batch_size=32,
        rng=np.random.default_rng(0),
        on_epoch=lambda epoch, loss: seen.append((epoch, loss)),
    )
    assert seen == list(enumerate(losses))
    assert (net.predict_proba(X).argmax(1) == labels).mean() > 0.9


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(216, 10), nn.Tanh()
        )

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize("as_module", [False, True])
def test_a_convolutional_encoder_trains(as_module):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 97)  # the last batch of 32 is a lone row
    images = rng.standard_normal((97, 1, 8, 8), dtype=np.float32)
    images[:, 0, 2:5, 2:5] += labels[:, None, None] * 1.5
    encoder = Images() if as_module else Images
    net = TorchNetwork((1, 8, 8), 2, encoder=encoder, l2=1e-4, rng=rng)
    net.train(images.reshape(97, 64), np.eye(2)[labels], loss="kl", epochs=15, lr=1e-2, batch_size=32, rng=rng)
    assert net.embed(images).shape == (97, 10)
    assert (net.predict_proba(images.reshape(97, 64)).argmax(1) == labels).mean() > 0.95
    if as_module:
        # The caller's module is not the one that was trained.
        assert not np.allclose(encoder.layers[0].weight.detach(), net.state()["encoder.layers.0.weight"])


def test_read_only_rows_and_other_types_are_taken():
    X, targets, _ = data()
    X64 = X.astype(np.float64)
    X64.setflags(write=False)
    X.setflags(write=False)
    for make in (numpy_net, torch_net):
        first, second = make(), make()
        for net, rows in ((first, X), (second, X64)):
            net.train(rows, targets, rng=np.random.default_rng(0), **PHASE)
        np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X64))


@pytest.mark.parametrize("make", [numpy_net, torch_net])
def test_rows_of_another_width_are_refused(make):
    X, targets, _ = data()
    with pytest.raises(ValueError, match="shape"):
        make().train(X[:, :-1], targets, rng=np.random.default_rng(0), **PHASE)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
@pytest.mark.parametrize("make", [numpy_net, torch_net])
def test_a_copy_trains_as_the_original_does(make, duplicate):
    X, targets, _ = data()
    net = make(l2=L2)
    stir(net)
    other = duplicate(net)
    before = net.predict_proba(X)
    np.testing.assert_array_equal(other.predict_proba(X), before)
    other.train(X, targets, rng=np.random.default_rng(0), **PHASE)
    np.testing.assert_array_equal(net.predict_proba(X), before)
    net.train(X, targets, rng=np.random.default_rng(0), **PHASE)
    np.testing.assert_array_equal(net.predict_proba(X), other.predict_proba(X))
    assert np.abs(net.predict_proba(X) - before).max() > 1e-3


def test_the_numpy_network_does_not_load_torch():
    code = "import sys, deepsep.networks; deepsep.networks.NumpyNetwork; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_batch_views_do_not_outlive_a_chunk():
    # A chunk that is filled with fewer rows than before must not leave the old batches behind.
    X, targets, _ = data(20)
    chunk = Chunk(X, targets, None, batch_size=8, dropout=Dropout(0.5, 4, seed=0))
    chunk.fill(np.arange(20))
    assert [len(batch.rows) for batch in chunk.batches] == [8, 8, 4]
    chunk.fill(np.arange(9))
    assert [len(batch.rows) for batch in chunk.batches] == [8, 1]
    assert all(isinstance(batch, BatchViews) for batch in chunk.batches)
    np.testing.assert_allclose(chunk.share[:9], [1 / 8] * 8 + [1])

"""The torch networks on a GPU, where full batches are CUDA graphs. Skipped where there is none."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from deepsep.networks import NumpyNetwork, TorchNetwork, loop  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

D, C, N = 20, 4, 330  # ten batches of 32 and one of 10
PHASE = {"loss": "kl", "epochs": 3, "lr": 1e-2, "batch_size": 32}
L2 = (1e-3, 1e-4, 1e-5)


def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D), dtype=np.float32)
    return X, rng.dirichlet(np.ones(C), N).astype(np.float32), rng.integers(0, 4, N).astype(np.float32)


@pytest.fixture
def captures(monkeypatch):
    """Whether each capture succeeded."""
    outcomes = []
    capture = loop.capture

    def watched(*args):
        graph = capture(*args)
        outcomes.append(graph is not None)
        return graph

    monkeypatch.setattr(loop, "capture", watched)
    return outcomes


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["kl", "mse"])
def test_graphs_train_as_numpy_does(captures, loss, weighted):
    X, targets, weight = data()
    phase = {**PHASE, "loss": loss, "weight": weight if weighted else None}
    reference = NumpyNetwork(D, C, dropout=0.0, l2=L2, rng=np.random.default_rng(1))
    net = TorchNetwork(D, C, dropout=0.0, l2=L2, device="cuda", rng=np.random.default_rng(1))
    losses = reference.train(X, targets, rng=np.random.default_rng(2), **phase)
    np.testing.assert_allclose(net.train(X, targets, rng=np.random.default_rng(2), **phase), losses, rtol=2e-3)
    assert captures == [True]
    np.testing.assert_allclose(net.predict_proba(X), reference.predict_proba(X), atol=5e-3)
    tracked = "encoder.2.num_batches_tracked"
    assert net.state()[tracked] == reference.state()[tracked]


def test_dropout_differs_from_step_to_step_and_repeats_with_the_seed():
    X, targets, _ = data()
    runs = []
    for seed in (0, 0, 1):
        net = TorchNetwork(D, C, device="cuda", rng=np.random.default_rng(1))
        net.train(X, targets, rng=np.random.default_rng(seed), **PHASE)
        runs.append(net.predict_proba(X))
    np.testing.assert_allclose(runs[0], runs[1], atol=1e-5)
    assert np.abs(runs[0] - runs[2]).max() > 1e-3
    # With a rate of 0 and every batch the same, the loss moves only with the dropout.
    net = TorchNetwork(D, C, device="cuda", rng=np.random.default_rng(1))
    losses = net.train(X[:32], targets[:32], rng=np.random.default_rng(0), **{**PHASE, "lr": 0.0, "epochs": 12})
    assert len(set(losses)) == 12


def test_the_global_generators_are_left_alone():
    X, targets, _ = data()
    torch.cuda.init()
    before = torch.cuda.get_rng_state(), torch.get_rng_state()
    net = TorchNetwork(D, C, device="cuda", rng=np.random.default_rng(1))
    net.train(X, targets, rng=np.random.default_rng(0), **PHASE)
    assert torch.equal(torch.cuda.get_rng_state(), before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


class ReadsBack(nn.Module):
    """Asks the device for a number in the middle of the step, which no graph can hold."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(D, 8)

    def forward(self, x):
        h = self.linear(x)
        return torch.tanh(h) if h.abs().max().item() >= 0 else h


def test_a_step_that_cannot_be_captured_is_run_as_it_is(captures):
    X, targets, _ = data()
    nets = {
        device: TorchNetwork(D, C, encoder=ReadsBack, device=device, rng=np.random.default_rng(1))
        for device in ("cuda", "cpu")
    }
    losses = {name: net.train(X, targets, rng=np.random.default_rng(0), **PHASE) for name, net in nets.items()}
    assert captures == [False]
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], rtol=1e-3)
    # And the next network is captured again.
    net = TorchNetwork(D, C, device="cuda", rng=np.random.default_rng(1))
    net.train(X, targets, rng=np.random.default_rng(0), **PHASE)
    assert captures == [False, True]


def test_tensors_on_the_device_are_used_as_they_are():
    X, targets, _ = data()
    there = torch.tensor(X, device="cuda"), torch.tensor(targets, device="cuda")
    first, second = (TorchNetwork(D, C, device="cuda", rng=np.random.default_rng(1)) for _ in range(2))
    first.train(X, targets, rng=np.random.default_rng(0), **PHASE)
    second.train(*there, rng=np.random.default_rng(0), **PHASE)
    np.testing.assert_allclose(first.predict_proba(X), second.predict_proba(there[0]), atol=1e-5)
    assert loop.tensor(there[0], torch.device("cuda")).data_ptr() == there[0].data_ptr()

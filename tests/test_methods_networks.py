"""Methods that train the paper's network, and entropy minimisation for logistic regression, against mathematics."""

from itertools import combinations, product

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime, minimize
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch import nn
from torch.nn.functional import cross_entropy

from deepsep.classifiers import (
    EntropyLogistic,
    EntropyNetwork,
    MeanTeacher,
    PiModel,
    PseudoLabel,
    SVMNetwork,
    TemporalEnsembling,
    TransformationStability,
    VirtualAdversarial,
)
from deepsep.errors import ParameterError
from deepsep.networks.mixed_batches import Batch
from deepsep.zoo.consistency.consistency import PastOutputs, disagreement, exactly_one, ramp
from deepsep.zoo.consistency.entropy_logistic import objective
from deepsep.zoo.consistency.virtual_adversarial import divergence, unit, worst_direction
from deepsep.zoo.kernels.svm_network import fit_slope, squared_hinge

STEPS = 60
QUICK = {"steps": STEPS, "hidden": (16, 8), "batch_size": 8, "unlabeled_batch": 16, "device": "cpu", "random_state": 0}
STILL = {**QUICK, "dropout": 0.0, "l2": 1e-3, "learning_rate": 1e-2}  # nothing random but start and batches


@pytest.fixture(scope="module")
def data():
    X, truth = make_blobs(150, centers=3, n_features=5, cluster_std=2.5, random_state=0)
    return X, np.where(np.arange(150) < 24, truth, -1)


def watched(kind, **settings):
    """Return a model that notes what its training is given: the network, the start, batches, and states."""

    class Watched(kind):
        def _train(self, network, rows, loss_of, rng, *, after_step=None, **rest):
            self.network, self.start = network, network.state()
            self.batches, self.states, self.losses, self.loss_of = [], [], [], loss_of

            def noted_loss(batch):
                self.batches.append(Batch(*(part.clone() for part in batch)))
                self.losses.append(loss_of(batch))
                return self.losses[-1]

            def noted_step(batch):
                if after_step is not None:
                    after_step(batch)
                self.states.append(network.state())

            return super()._train(network, rows, noted_loss, rng, after_step=noted_step, **rest)

    Watched.__name__ = kind.__name__
    return Watched(**settings)


def twin_of(start, hidden=(16, 8)):
    """Return the network of the paper without dropout, written down once more, in a given state."""
    layers = [nn.Linear(5, hidden[0]), nn.Tanh(), nn.BatchNorm1d(hidden[0]), nn.Identity()]
    layers += [nn.Linear(*hidden), nn.Tanh()]
    module = nn.ModuleDict({"encoder": nn.Sequential(*layers), "head": nn.Linear(hidden[1], 3)})
    module.load_state_dict({name: torch.from_numpy(value) for name, value in start.items()})
    return module.train()


def scaled(X):
    return torch.from_numpy(StandardScaler().fit_transform(X).astype(np.float32))


def train_twin(model, X, y):
    """Train the twin with cross-entropy alone on the batches that the model saw; return the state after each step."""
    twin = twin_of(model.start)
    weights = [p for p in twin.parameters() if p.ndim > 1]
    others = [p for p in twin.parameters() if p.ndim == 1]
    adam = torch.optim.Adam(
        [{"params": weights, "weight_decay": 2e-3}, {"params": others}], lr=1e-2, fused=True, betas=(0.9, 0.999)
    )
    X, y, states = scaled(X), torch.from_numpy(y), []
    for batch in model.batches:
        scores = twin["head"](twin["encoder"](X[torch.cat([batch.labeled, batch.unlabeled])]))
        adam.zero_grad()
        cross_entropy(scores[: len(batch.labeled)], y[batch.labeled]).backward()
        adam.step()
        states.append({name: value.numpy().copy() for name, value in twin.state_dict().items()})
    return states


def same_bits(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


# -- without their own term they are the supervised network ---------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "off"),
    [
        (EntropyNetwork, {"entropy": 0.0}),
        (PseudoLabel, {"weight": 0.0}),
        (TemporalEnsembling, {"consistency": 0.0, "noise": 0.0}),
        (MeanTeacher, {"consistency": 0.0, "noise": 0.0}),
        (VirtualAdversarial, {"alpha": 0.0}),
    ],
)
def test_without_its_term_it_is_the_supervised_network_to_the_bit(data, kind, off):
    X, y = data
    model = watched(kind, **STILL, **off).fit(X, y)
    assert len(model.batches) == STEPS
    assert all((y[batch.labeled] >= 0).all() and (y[batch.unlabeled] < 0).all() for batch in model.batches)
    for own, twin in zip(model.states, train_twin(model, X, y), strict=True):
        same_bits(own, twin)
    if kind is not MeanTeacher:  # of which the teacher is kept
        same_bits(model.network_weights_, model.states[-1])
    on = watched(kind, **STILL).fit(X, y)
    assert any(not np.array_equal(on.states[-1][name], model.states[-1][name]) for name in model.states[-1])


@pytest.mark.parametrize(("kind", "off"), [(PiModel, {}), (TransformationStability, {"exclusivity": 0.0})])
def test_several_passes_without_consistency_are_the_supervised_network(data, kind, off):
    # Every row is in the batch several times, so moments are the same only up to rounding.
    X, y = data
    model = watched(kind, **{**STILL, "steps": 5}, consistency=0.0, noise=0.0, **off).fit(X, y)
    last = train_twin(model, X, y)[-1]
    for name in ("encoder.0.weight", "encoder.4.weight", "head.weight"):
        np.testing.assert_allclose(model.states[-1][name], last[name], atol=1e-3)


# -- consistency ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decay", [0.9, 0.0])
def test_teacher_is_the_moving_average_of_the_students(data, decay):
    X, y = data
    model = watched(MeanTeacher, **QUICK, decay=decay).fit(X, y)
    for name in (name for name, _ in model.network.module.named_parameters()):
        mean = np.zeros_like(model.start[name], dtype=np.float64)
        for step, state in enumerate(model.states):
            keep = min(1 - 1 / (step + 1), decay)
            mean = keep * mean + (1 - keep) * state[name]
        np.testing.assert_allclose(model.network_weights_[name], mean, atol=1e-5)


def test_teacher_predicts_with_moments_of_its_own(data):
    X, y = data
    model = watched(MeanTeacher, **{**QUICK, "steps": 200}, decay=0.9, noise=0.0).fit(X, y)
    W, b = model.network_weights_["encoder.0.weight"], model.network_weights_["encoder.0.bias"]
    hidden = np.tanh(scaled(X).numpy() @ W.T + b)
    np.testing.assert_allclose(model.network_weights_["encoder.2.running_mean"], hidden.mean(axis=0), atol=0.12)
    twin = twin_of(model.network_weights_).eval()
    with torch.no_grad():
        p = torch.softmax(twin["head"](twin["encoder"](scaled(X))), -1).numpy()
    np.testing.assert_allclose(model.predict_proba(X), p, atol=1e-5)


def reached_by(loss):
    """Return the parameters that the gradient of a loss reaches."""
    seen, reached, queue = set(), set(), [loss.grad_fn]
    while queue:
        node = queue.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            reached.add(node.variable)
        queue += [parent for parent, _ in node.next_functions]
    return reached


@pytest.mark.parametrize(
    "kind",
    [
        *(MeanTeacher, PiModel, TemporalEnsembling, TransformationStability),
        *(PseudoLabel, EntropyNetwork, SVMNetwork, VirtualAdversarial),
    ],
)
def test_gradients_reach_the_trained_network_alone(data, kind):
    X, y = data
    model = watched(kind, **{**QUICK, "steps": 3}).fit(X, y)
    assert reached_by(model.losses[-1]) == set(model.network.module.parameters())


def test_mean_teacher_loss_by_hand(data):
    X, y = data
    model = watched(MeanTeacher, **STILL, noise=0.0, consistency=7.0, ramp_up=0.5, decay=0.5).fit(X, y)
    student, teacher = twin_of(model.start), twin_of(model.start)
    X, y = scaled(X), torch.from_numpy(y)
    for step, (batch, loss, state) in enumerate(zip(model.batches, model.losses, model.states, strict=True)):
        rows = torch.cat([batch.labeled, batch.unlabeled])
        with torch.no_grad():
            p, q = (torch.softmax(net["head"](net["encoder"](X[rows])), -1) for net in (student, teacher))
        w = 7 * np.exp(-5 * (1 - min(1.0, 2 * step / STEPS)) ** 2)
        own = p[torch.arange(len(batch.labeled)), y[batch.labeled]]
        by_hand = -own.log().mean() + w * (p - q).square().mean()
        assert loss.item() == pytest.approx(float(by_hand), rel=1e-3, abs=1e-4)
        student.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
        keep = min(1 - 1 / (step + 1), 0.5)
        with torch.no_grad():
            for mean, latest in zip(teacher.parameters(), student.parameters(), strict=True):
                mean.copy_(keep * mean + (1 - keep) * latest)


def test_ramp():
    progress = torch.tensor([0.0, 0.2, 0.4, 0.8])
    np.testing.assert_allclose(ramp(progress, 0.4), np.exp([-5, -5 / 4, 0, 0]), rtol=1e-6)
    np.testing.assert_array_equal(ramp(progress, 0.0), 1)


@pytest.mark.parametrize("decay", [0.0, 0.6, 0.95])
def test_past_outputs_are_the_closed_form(decay):
    rng = np.random.default_rng(0)
    past = PastOutputs(6, 3, decay=decay, device="cpu")
    predicted = {row: [] for row in range(6)}
    for _ in range(30):
        at = rng.integers(0, 5, size=4)  # some rows twice in one batch; row 5 never
        z = rng.dirichlet(np.ones(3), size=4).astype(np.float32)
        past.add(torch.from_numpy(at), torch.from_numpy(z))
        for row in set(at):
            predicted[row].append(z[np.flatnonzero(at == row)[0]])
    goals, known = past.recall(torch.arange(6))
    np.testing.assert_array_equal(known, [1, 1, 1, 1, 1, 0])
    for row in range(5):
        k = len(predicted[row])
        total = sum(decay ** (k - i) * z for i, z in enumerate(predicted[row], start=1))
        np.testing.assert_allclose(goals[row], (1 - decay) * total / (1 - decay**k), atol=1e-6)


def test_temporal_ensembling_loss_by_hand(data):
    X, y = data
    model = watched(TemporalEnsembling, **STILL, noise=0.0, consistency=5.0, ramp_up=0.0, decay=0.6).fit(X, y)
    X, y = scaled(X), torch.from_numpy(y)
    predicted, state = {}, model.start
    for batch, loss, after in zip(model.batches, model.losses, model.states, strict=True):
        net, rows = twin_of(state), torch.cat([batch.labeled, batch.unlabeled]).tolist()
        with torch.no_grad():
            p = torch.softmax(net["head"](net["encoder"](X[rows])), -1).numpy().astype(float)
        apart = []
        for row, z in zip(rows, p, strict=True):
            before = predicted.get(row, [])
            shares = 0.6 ** np.arange(len(before))[::-1]
            apart.append(((z - shares @ np.array(before) / shares.sum()) ** 2).mean() if before else 0.0)
        for row in set(rows):
            predicted.setdefault(row, []).append(p[rows.index(row)])
        own = p[np.arange(len(batch.labeled)), y[batch.labeled].numpy()]
        assert loss.item() == pytest.approx(-np.log(own).mean() + 5 * np.mean(apart), rel=1e-3, abs=1e-4)
        state = after


def test_pi_model_passes_differ_by_noise_and_dropout_only(data):
    X, y = data
    for settings, agree in (({"noise": 0.0, "dropout": 0.0}, True), ({"noise": 0.5, "dropout": 0.0}, False)):
        fits = [
            watched(PiModel, **{**QUICK, **settings, "steps": 1}, ramp_up=0.0, consistency=w).fit(X, y)
            for w in (0.0, 1e3)
        ]
        a, b = (fit.losses[0].item() for fit in fits)
        assert (a == pytest.approx(b, abs=1e-6)) is agree


# -- transformation/stability and mutual exclusivity -----------------------------------------------------------


@pytest.mark.parametrize("c", [2, 3, 5])
def test_exactly_one_is_the_sum_over_all_outcomes_of_independent_events(c):
    scores = torch.from_numpy(2 * np.random.default_rng(c).normal(size=(7, c)))
    for p, found in zip(torch.softmax(scores, -1).numpy(), exactly_one(scores), strict=True):
        outcomes = (happens for happens in product([False, True], repeat=c) if sum(happens) == 1)
        total = sum(np.where(happens, p, 1 - p).prod() for happens in outcomes)
        assert float(found) == pytest.approx(total, rel=1e-12)


def test_exactly_one_where_nothing_and_where_a_class_is_sure():
    for c in (2, 3, 10):
        assert float(exactly_one(torch.zeros(c).double())) == pytest.approx((1 - 1 / c) ** (c - 1))
    sure = torch.tensor([[200.0, 0.0, -30.0]], requires_grad=True)  # where 1 - p is 0 in single precision
    value = exactly_one(sure).sum()
    value.backward()
    assert value.item() == pytest.approx(1)
    assert torch.isfinite(sure.grad).all()
    p = torch.softmax(torch.tensor([1.3, 0.0]).double(), -1)
    assert float(exactly_one(p.log())) == pytest.approx(float((p**2).sum()))  # of two classes


def test_the_slope_of_mutual_exclusivity_drives_to_the_most_probable_class():
    scores = torch.tensor([0.3, 0.1, -0.2], dtype=torch.float64, requires_grad=True)
    for _ in range(200):
        (slope,) = torch.autograd.grad(exactly_one(scores), scores)
        scores = (scores + 5 * slope).detach().requires_grad_()
    assert torch.softmax(scores, -1)[0] > 0.95
    assert torch.autograd.gradcheck(exactly_one, scores)


@pytest.mark.parametrize("n", [2, 4])
def test_disagreement_is_the_mean_over_pairs_of_passes(n):
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=(n, 6))
    pairs = [((p[j] - p[k]) ** 2).mean() for j, k in combinations(range(n), 2)]
    assert float(disagreement(torch.from_numpy(p))) == pytest.approx(np.mean(pairs))


def test_with_two_passes_and_no_exclusivity_it_is_the_pi_model(data):
    settings = {**QUICK, "steps": 3, "consistency": 20.0, "ramp_up": 0.0}
    pi, mine = (
        watched(kind, **settings, **more).fit(*data)
        for kind, more in ((PiModel, {}), (TransformationStability, {"passes": 2, "exclusivity": 0.0}))
    )
    np.testing.assert_allclose(*([loss.item() for loss in fit.losses] for fit in (pi, mine)), rtol=1e-4)


def test_transformation_stability_loss_by_hand(data):
    X, y = data
    settings = {**STILL, "steps": 1, "noise": 0.0, "ramp_up": 0.0, "exclusivity": 0.7, "consistency": 1e3, "passes": 3}
    model = watched(TransformationStability, **settings).fit(X, y)
    (batch,), twin = model.batches, twin_of(model.start)
    with torch.no_grad():  # passes without noise agree, and moments of batch norm are those of one
        p = torch.softmax(twin["head"](twin["encoder"](scaled(X)[batch.both])), -1)
    own = p[torch.arange(len(batch.labeled)), torch.from_numpy(y)[batch.labeled]]
    exclusive = sum(p[:, k] * (1 - p[:, m]) * (1 - p[:, n]) for k, m, n in ((0, 1, 2), (1, 0, 2), (2, 0, 1)))
    by_hand = -own.log().mean() - 0.7 * exclusive.mean()
    assert model.losses[0].item() == pytest.approx(float(by_hand), abs=1e-4)


# -- virtual adversarial training ------------------------------------------------------------------------------


def test_worst_direction_is_the_leading_eigenvector_of_the_hessian():
    rng = np.random.default_rng(0)
    W = torch.from_numpy(rng.normal(size=(6, 4)))
    x, start = (torch.from_numpy(rng.normal(size=(7, 6))) for _ in range(2))
    p = torch.softmax(x @ W, -1)
    found = worst_direction(lambda rows: rows @ W, x, p.log(), start, 300)
    for row, direction in zip(p, found, strict=True):
        hessian = W @ (torch.diag(row) - torch.outer(row, row)) @ W.T
        leading = torch.linalg.eigh(hessian)[1][:, -1]
        assert abs(float(leading @ direction)) == pytest.approx(1, abs=2e-3)


def test_with_two_classes_one_iteration_finds_it():
    rng = np.random.default_rng(0)
    W = torch.from_numpy(rng.normal(size=(6, 2)))
    x, start = (torch.from_numpy(rng.normal(size=(7, 6))) for _ in range(2))
    found = worst_direction(lambda rows: rows @ W, x, torch.log_softmax(x @ W, -1), start, 1)
    along = unit((W[:, 1] - W[:, 0])[None])
    np.testing.assert_allclose(torch.abs(found @ along.T).numpy(), 1, atol=1e-6)


def test_no_other_direction_changes_a_prediction_more():
    rng = np.random.default_rng(0)
    W = torch.from_numpy(rng.normal(size=(6, 4)))
    x, start = (torch.from_numpy(rng.normal(size=(1, 6))) for _ in range(2))
    log_p = torch.log_softmax(x @ W, -1)
    worst = worst_direction(lambda rows: rows @ W, x, log_p, start, 300)
    most = divergence(log_p, (x + 1e-3 * worst) @ W)
    others = unit(torch.from_numpy(rng.normal(size=(500, 6))))
    assert all(divergence(log_p, (x + 1e-3 * other) @ W) < most * 1.001 for other in others)


def test_divergence_by_hand():
    p, q = np.array([[0.2, 0.8], [0.5, 0.5]]), np.array([[0.4, 0.6], [0.5, 0.5]])
    by_hand = (p * np.log(p / q)).sum(axis=1).mean()
    assert float(divergence(torch.from_numpy(np.log(p)), torch.from_numpy(np.log(q)))) == pytest.approx(by_hand)


def test_virtual_adversarial_passes_leave_the_moments_of_batch_norm_alone(data):
    X, y = data
    model = watched(VirtualAdversarial, **STILL, alpha=5.0).fit(X, y)
    twin, first = twin_of(model.start), model.batches[0]
    twin["encoder"](scaled(X)[torch.cat([first.labeled, first.unlabeled])])
    after = twin.state_dict()
    for name in ("encoder.2.running_mean", "encoder.2.running_var"):
        np.testing.assert_allclose(model.states[0][name], after[name].numpy(), rtol=1e-5)


def test_virtual_adversarial_loss_has_the_entropy_where_asked(data):
    X, y = data
    plain, more = (watched(VirtualAdversarial, **STILL, alpha=0.0, entropy=on).fit(X, y) for on in (False, True))
    twin, batch = twin_of(more.start), more.batches[0]
    with torch.no_grad():
        rows = torch.cat([batch.labeled, batch.unlabeled])
        p = torch.softmax(twin["head"](twin["encoder"](scaled(X)[rows])), -1)
    entropy = float(-(p * p.log()).sum(-1).mean())
    assert more.losses[0].item() - plain.losses[0].item() == pytest.approx(entropy, abs=1e-5)


# -- pseudo-labels and entropy --------------------------------------------------------------------------------


def scores_of(state, X, batch):
    net = twin_of(state)
    return net["head"](net["encoder"](scaled(X)[torch.cat([batch.labeled, batch.unlabeled])])).detach()


def test_pseudo_label_loss_by_hand(data):
    X, y = data
    model = watched(PseudoLabel, **STILL, weight=2.0, ramp=(0.25, 0.75)).fit(X, y)
    for step in (0, 15, 30, 45, 59):
        batch, state = model.batches[step], model.states[step - 1] if step else model.start
        p = torch.softmax(scores_of(state, X, batch), -1).numpy()
        alpha = 2 * np.clip((step / STEPS - 0.25) / 0.5, 0, 1)
        own = p[np.arange(8), y[batch.labeled.numpy()]]
        by_hand = -np.log(own).mean() - alpha * np.log(p[8:].max(axis=1)).mean()
        assert model.losses[step].item() == pytest.approx(by_hand, rel=1e-4)


def test_entropy_gradient_against_finite_differences(data):
    X, y = data
    model = watched(EntropyNetwork, **STILL, entropy=1.5).fit(X, y)
    batch, last = model.batches[-1], model.states[-1]
    model.network.load_state(last)
    model.network.module.train()
    head = model.network.module["head"].weight
    model.network.module.zero_grad()
    model.loss_of(batch).backward()

    def by_hand(flat):
        twin = twin_of(last).double()
        with torch.no_grad():
            twin["head"].weight.copy_(torch.from_numpy(flat.reshape(3, 8)))
            rows = torch.cat([batch.labeled, batch.unlabeled])
            p = torch.softmax(twin["head"](twin["encoder"](scaled(X)[rows].double())), -1).numpy()
        own = p[np.arange(8), y[batch.labeled.numpy()]]
        return -np.log(own).mean() + 1.5 * (59 / STEPS) * -(p[8:] * np.log(p[8:])).sum(axis=1).mean()

    start = last["head.weight"].astype(np.float64).ravel()
    np.testing.assert_allclose(head.grad.numpy().ravel(), approx_fprime(start, by_hand, 1e-6), atol=2e-4)
    assert model.loss_of(batch).item() == pytest.approx(by_hand(start), rel=1e-4)


# -- the loss of support vector machines ----------------------------------------------------------------------


def test_squared_hinge_by_hand():
    rng = np.random.default_rng(0)
    scores, codes = rng.normal(size=(20, 4)), rng.integers(0, 4, size=20)
    total = 0.0
    for i in range(20):
        for k in range(4):
            total += max(0.0, 1 - (1 if k == codes[i] else -1) * scores[i, k]) ** 2
    assert float(squared_hinge(torch.from_numpy(scores), torch.from_numpy(codes))) == pytest.approx(total / 20)


def test_squared_hinge_of_a_linear_model_is_that_of_liblinear():
    X, codes = make_blobs(60, centers=3, n_features=4, cluster_std=3.0, random_state=1)
    X, y, C = torch.from_numpy(StandardScaler().fit_transform(X)), torch.from_numpy(codes), 0.3

    def loss(flat):
        W = torch.tensor(flat.reshape(3, 4), requires_grad=True)
        value = W.square().sum() / 2 + C * 60 * squared_hinge(X @ W.T, y)
        value.backward()
        return value.item(), W.grad.numpy().ravel()

    result = minimize(loss, np.zeros(12), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 1e-15})
    svc = LinearSVC(loss="squared_hinge", C=C, dual=False, fit_intercept=False, tol=1e-10).fit(X.numpy(), codes)
    np.testing.assert_allclose(result.x.reshape(3, 4), svc.coef_, atol=1e-5)


def test_svm_network_never_looks_at_unlabeled_rows_in_the_loss(data):
    X, y = data
    model = watched(SVMNetwork, **{**STILL, "steps": 5}).fit(X, y)
    batch, loss = model.batches[0], model.losses[0]
    scores = scores_of(model.start, X, batch).numpy()
    sign = 2 * np.eye(3)[y[batch.labeled.numpy()]] - 1
    by_hand = (np.maximum(0, 1 - sign * scores[:8]) ** 2).sum(axis=1).mean()
    assert loss.item() == pytest.approx(by_hand, rel=1e-4)


def test_slope_recovers_a_known_one():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(20_000, 3))
    p = np.exp(2.5 * scores)
    p /= p.sum(axis=1, keepdims=True)
    codes = (rng.random(20_000)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    assert fit_slope(scores, codes, np.ones(20_000)) == pytest.approx(2.5, rel=0.03)
    weight = rng.integers(0, 3, size=200).astype(float)
    copies = np.repeat(np.arange(200), weight.astype(int))
    assert fit_slope(scores[:200], codes[:200], weight) == pytest.approx(
        fit_slope(scores[copies], codes[copies], np.ones(len(copies))), rel=1e-6
    )


def test_svm_network_probabilities_are_softmax_with_the_slope(data):
    X, y = data
    model = SVMNetwork(**STILL).fit(X, y)
    assert 0.1 <= model.slope_ <= 20
    state = {name: value.copy() for name, value in model.network_weights_.items()}
    for name in ("head.weight", "head.bias"):
        state[name] /= np.float32(model.slope_)
    net = twin_of(state).eval()
    with torch.no_grad():
        scores = net["head"](net["encoder"](scaled(X))).numpy()
    p = np.exp(model.slope_ * scores)
    np.testing.assert_allclose(model.predict_proba(X), p / p.sum(axis=1, keepdims=True), atol=1e-5)


def test_svm_network_folds_hide_every_label_once_and_lone_ones_never(data):
    X, _ = data
    y = np.full(150, -1)
    y[:9], y[9] = [0, 1, 0, 1, 0, 1, 0, 1, 0], 2
    seen = []

    class Watched(SVMNetwork):
        def _fit_network(self, rows, rng):
            seen.append(set(rows.labeled))
            return super()._fit_network(rows, rng)

    with pytest.warns(UserWarning, match="only one labelled row"):
        Watched(**{**QUICK, "steps": 2}).fit(X, y)
    full, *parts = seen
    assert full == set(range(10))
    assert len(parts) == 3
    assert all(9 in part for part in parts)
    assert [sum(row not in part for part in parts) for row in range(9)] == [1] * 9
    y[:9] = -1
    y[0], y[1] = 0, 1
    with pytest.warns(UserWarning, match="only one labelled row"):
        assert SVMNetwork(**{**QUICK, "steps": 2}).fit(X, y).slope_ == 1.0


# -- entropy minimisation for logistic regression -------------------------------------------------------------


@pytest.mark.parametrize("C", [0.05, 1.0])
def test_entropy_logistic_without_entropy_is_logistic_regression(data, C):
    X, y = data
    model = EntropyLogistic(entropy=0.0, C=C).fit(X, y)
    rows = StandardScaler().fit_transform(X)
    other = LogisticRegression(C=C, tol=1e-9, max_iter=5000).fit(rows[:24], y[:24])
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(rows), atol=1e-4)


def test_entropy_logistic_of_two_classes_is_logistic_regression_with_twice_the_C(data):
    X, y = data
    y = np.where(y == 2, 1, y)
    model = EntropyLogistic(entropy=0.0, C=0.5).fit(X, y)
    rows = StandardScaler().fit_transform(X)
    other = LogisticRegression(C=1.0, tol=1e-9, max_iter=5000).fit(rows[:24], y[:24])
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(rows), atol=1e-4)


def test_entropy_logistic_objective_and_gradient():
    rng = np.random.default_rng(0)
    X, Y, w = rng.normal(size=(12, 4)), np.eye(3)[rng.integers(0, 3, 12)], rng.random(12)
    U, v = rng.normal(size=(30, 4)), rng.random(30)
    theta = rng.normal(size=15)

    def by_hand(theta):
        W, b = theta.reshape(5, 3)[:4], theta.reshape(5, 3)[4]
        p, q = (np.exp(Z @ W + b) / np.exp(Z @ W + b).sum(axis=1, keepdims=True) for Z in (X, U))
        H = -(q * np.log(q)).sum(axis=1)
        return -(w * np.log((Y * p).sum(axis=1))).sum() + 0.7 * w.sum() * (v @ H) / v.sum() + (W**2).sum() / (2 * 0.4)

    value, gradient = objective(theta, (X, Y, w), (U, v), 0.7, 0.4)
    assert value == pytest.approx(by_hand(theta))
    np.testing.assert_allclose(gradient, approx_fprime(theta, by_hand, 1e-7), rtol=1e-4, atol=1e-5)


def test_entropy_logistic_makes_unlabeled_rows_surer_and_lowers_its_objective(data):
    X, y = data
    plain, model = (EntropyLogistic(entropy=value).fit(X, y) for value in (0.0, 0.5))

    def entropy(fit):
        p = fit.label_distributions_[24:]
        return -(p * np.log(p)).sum(axis=1).mean()

    assert entropy(model) < entropy(plain)
    assert model.objective_ < plain.objective_ + 0.5 * 24 * entropy(plain)  # its value at the start


def test_entropy_logistic_weights_are_copies(data):
    X, y = data
    weight = np.random.default_rng(0).integers(0, 4, size=150)
    weight[:24] = np.maximum(weight[:24], 1)
    copies = np.repeat(np.arange(150), weight)
    a = EntropyLogistic(entropy=0.3).fit(X, y, sample_weight=weight)
    b = EntropyLogistic(entropy=0.3).fit(X[copies], y[copies])
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-4)


# -- settings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (MeanTeacher(decay=1.0), "decay"),
        (MeanTeacher(consistency=-1), "consistency"),
        (PiModel(noise=np.nan), "noise"),
        (PiModel(ramp_up=1.5), "ramp_up"),
        (TemporalEnsembling(decay="much"), "decay"),
        (PseudoLabel(weight=-0.1), "weight"),
        (PseudoLabel(ramp=(0.6, 0.1)), "ramp"),
        (PseudoLabel(ramp=0.5), "ramp"),
        (EntropyNetwork(entropy=-1), "entropy"),
        (SVMNetwork(folds=1), "folds"),
        (EntropyLogistic(C=0), "C"),
        (EntropyLogistic(max_iter=0), "max_iter"),
    ],
)
def test_settings_that_make_no_sense(data, model, name):
    with pytest.raises(ParameterError, match=f"{name}="):
        model.fit(*data)

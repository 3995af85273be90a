"""The generative adversarial networks, against their mathematics."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import gaussian_kde
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.decomposition import PCA
from sklearn.neighbors import KernelDensity
from test_methods_networks import STEPS, STILL, reached_by, same_bits, scaled, train_twin, twin_of, watched

from deepsep.classifiers import ComplementGAN, FeatureMatchingGAN, TripleGAN
from deepsep.errors import ParameterError
from deepsep.networks import TorchNetwork
from deepsep.zoo.adversarial.feature_matching import Density
from deepsep.zoo.adversarial.generative_adversarial import (
    Generator,
    PairJudge,
    entropy,
    made_loss,
    made_scores,
    mean_distance,
    pull_away,
    real_loss,
    undisturbed,
)
from deepsep.zoo.adversarial.triple_gan import judge_loss_of, mean_log_fake, mean_log_real

METHODS = [FeatureMatchingGAN, ComplementGAN, TripleGAN]
OFF = {
    FeatureMatchingGAN: {"weight": 0.0},
    ComplementGAN: {"weight": 0.0, "entropy": 0.0},
    TripleGAN: {"adversarial": 0.0, "pseudo": 0.0},
}


def rng(seed=0):
    return np.random.default_rng(seed)


def draw(*shape, seed=0):
    return torch.from_numpy(rng(seed).normal(size=shape))


@pytest.fixture(scope="module")
def data():
    X, truth = make_blobs(150, centers=3, n_features=5, cluster_std=2.5, random_state=0)
    return X, np.where(np.arange(150) < 24, truth, -1)


# -- losses ---------------------------------------------------------------------------------------------------


def test_a_row_is_real_with_the_probability_of_a_softmax_with_one_more_score_of_0():
    scores = 3 * draw(20, 4)
    more = np.hstack([scores.numpy(), np.zeros((20, 1))])
    p = np.exp(more) / np.exp(more).sum(axis=1, keepdims=True)
    assert float(made_loss(scores)) == pytest.approx(-np.log(p[:, -1]).mean())
    assert float(real_loss(scores)) == pytest.approx(-np.log(p[:, :-1].sum(axis=1)).mean())


@pytest.mark.parametrize("size", [-500.0, 500.0])
def test_losses_of_extreme_scores_are_finite(size):
    scores = torch.full((3, 2), size, requires_grad=True)
    (real_loss(scores) + made_loss(scores)).backward()
    assert torch.isfinite(scores.grad).all()


def test_entropy_by_hand():
    scores = draw(20, 4)
    p = np.exp(scores.numpy())
    p /= p.sum(axis=1, keepdims=True)
    assert float(entropy(scores)) == pytest.approx(-(p * np.log(p)).sum(axis=1).mean())


def test_mean_distance_by_hand():
    a, b = draw(7, 3), draw(9, 3, seed=1)
    by_hand = ((a.numpy().mean(axis=0) - b.numpy().mean(axis=0)) ** 2).sum()
    assert float(mean_distance(a, b)) == pytest.approx(by_hand)
    assert float(mean_distance(a, a.flip(0))) == pytest.approx(0)


def test_pull_away():
    assert float(pull_away(torch.diag(torch.tensor([1.0, 2.0, 3.0])))) == pytest.approx(0)
    assert float(pull_away(torch.tensor([[1.0, 2.0], [2.0, 4.0], [-3.0, -6.0]]))) == pytest.approx(1)
    rows = draw(6, 4).numpy()
    cosines = [(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) ** 2 for a, b in itertools.permutations(rows, 2)]
    assert float(pull_away(torch.from_numpy(rows))) == pytest.approx(np.mean(cosines))


def test_sums_over_classes_are_the_means_over_draws_of_a_class():
    verdicts = 2 * draw(5, 3)
    p = rng(1).dirichlet(np.ones(3), size=5)
    real = 1 / (1 + np.exp(-verdicts.numpy()))
    logs, fakes = [], []
    for classes in itertools.product(range(3), repeat=5):  # every way in which classes could be drawn
        chance = np.prod([p[i, y] for i, y in enumerate(classes)])
        logs.append(chance * np.mean([np.log(real[i, y]) for i, y in enumerate(classes)]))
        fakes.append(chance * np.mean([np.log(1 - real[i, y]) for i, y in enumerate(classes)]))
    p = torch.from_numpy(p)
    assert float(mean_log_real(p, verdicts)) == pytest.approx(sum(logs))
    assert float(mean_log_fake(p, verdicts)) == pytest.approx(sum(fakes))


@pytest.mark.parametrize("alpha", [0.5, 0.2])
def test_optimum_of_the_judge_is_that_of_the_paper(alpha):
    # Rows take three values, and there are two classes: every distribution is a table.
    p = np.array([[3, 1], [2, 2], [1, 1]]) / 10  # of labelled pairs (x, y)
    p_x, C = np.array([2, 3, 5]) / 10, np.array([[0.9, 0.1], [0.5, 0.5], [0.3, 0.7]])
    p_G = np.array([[1, 4], [2, 1], [1, 1]]) / 10
    table = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)

    def pairs(joint):
        counts = np.rint(10 * joint).astype(int)
        at = [(x, y) for x in range(3) for y in range(2) for _ in range(counts[x, y])]
        x, y = map(list, zip(*at, strict=True))
        return torch.eye(2, dtype=torch.float64)[y], table[x]

    x = np.repeat(np.arange(3), np.rint(10 * p_x).astype(int)).tolist()
    optimiser = torch.optim.LBFGS([table], max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-15)

    def closure():
        optimiser.zero_grad()
        loss = judge_loss_of(pairs(p), (torch.from_numpy(C[x]), table[x]), pairs(p_G), alpha)
        loss.backward()
        return loss

    optimiser.step(closure)
    others = alpha * p_x[:, None] * C + (1 - alpha) * p_G
    np.testing.assert_allclose(torch.sigmoid(table).detach().numpy(), p / (p + others), atol=1e-5)


def test_a_classifier_that_fools_the_judge_gives_the_classes_of_the_labeled_pairs():
    # Where D(x, y) is the optimal judge of p and the classifier is p itself, no small change lowers its loss on average
    # over classes of equal verdicts: D = 1/2 everywhere.
    p = rng(2).dirichlet(np.ones(3), size=4)
    optimal = p / (p + p)
    scores = torch.tensor(np.log(p), requires_grad=True)
    verdicts = torch.from_numpy(np.log(optimal / (1 - optimal)))
    mean_log_fake(scores.softmax(-1), verdicts).backward()
    np.testing.assert_allclose(scores.grad, 0, atol=1e-12)


def test_a_class_that_the_judge_believes_becomes_more_probable():
    scores = torch.zeros(1, 3, requires_grad=True)
    mean_log_fake(scores.softmax(-1), torch.tensor([[2.0, 0.0, -1.0]])).backward()
    down = -scores.grad[0]
    assert down[0] > 0 > down[2]


# -- the generator and the judge --------------------------------------------------------------------------------


def test_columns_of_two_values_stay_between_them():
    X = torch.tensor([[0.0, -1.5, 2.0, 7.0], [1.0, 0.5, 2.0, 7.5], [1.0, -1.5, 2.0, 9.0]])
    made = Generator(X, latent=3, hidden=(8,), rng=rng())(1e3 * draw(200, 3).float())
    low, high = made.amin(0), made.amax(0)
    assert low[0] >= 0
    assert high[0] <= 1
    assert low[1] >= -1.5
    assert high[1] <= 0.5
    assert (made[:, 2] == 2).all()
    assert low[3] < 7 or high[3] > 9


def test_classes_of_made_rows_matter_and_their_order_does_not():
    generator = Generator(draw(30, 4).float(), latent=3, hidden=(8, 6), n_classes=2, rng=rng())
    noise, codes = draw(10, 3).float(), torch.arange(10) % 2
    made = generator(noise, codes)
    assert (made != generator(noise, 1 - codes)).any()
    order = torch.from_numpy(rng().permutation(10))
    torch.testing.assert_close(generator(noise[order], codes[order]), made[order])


def test_judge_by_hand():
    judge = PairJudge(4, 3, hidden=(6, 5), dropout=0.5, rng=rng()).eval()
    x = draw(7, 4).float()
    h = x.numpy()
    layers = [part for part in judge if hasattr(part, "weight")]
    for i, layer in enumerate(layers):
        h = h @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
        h = h if i == len(layers) - 1 else np.where(h > 0, h, 0.2 * h)
    np.testing.assert_allclose(judge(x).detach().numpy(), h, rtol=1e-5, atol=1e-6)


def test_made_rows_leave_no_trace_in_batch_norm_and_are_seen_through_its_moments():
    network = TorchNetwork(4, 3, hidden=(6, 5), dropout=0.0, rng=rng())
    network.module.train()
    network.scores(draw(50, 4).float() + 2)
    before, x = network.state(), draw(9, 4, seed=1).float()
    scores = made_scores(network, x)
    same_bits(network.state(), before)
    assert all(part.training for part in network.module.modules())
    with undisturbed(network.module):
        torch.testing.assert_close(network.scores(x), scores)
    assert all(part.training for part in network.module.modules())


# -- the density ------------------------------------------------------------------------------------------------


def test_density_is_that_of_scikit_learn_on_principal_components():
    X, x = draw(80, 5).numpy() * [3, 2, 1, 0.5, 0.1], draw(20, 5, seed=1).numpy()
    density = Density(torch.from_numpy(X), components=3)
    pca = PCA(3).fit(X)
    twin = KernelDensity(bandwidth=density.bandwidth).fit(pca.transform(X))
    found = density.log_density(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, twin.score_samples(pca.transform(x)), rtol=1e-6)
    rows = pca.transform(X)
    left_out = [
        KernelDensity(bandwidth=density.bandwidth).fit(np.delete(rows, i, 0)).score_samples(rows[[i]])[0]
        for i in range(80)
    ]
    np.testing.assert_allclose(density.left_out.numpy(), left_out, rtol=1e-6)


def test_density_of_all_components_integrates_to_one():
    X = draw(40, 1)
    grid = torch.linspace(-20, 20, 4001, dtype=torch.float64)[:, None]
    total = float(Density(X).log_density(grid).exp().sum()) * 0.01
    assert total == pytest.approx(1, abs=1e-3)
    assert gaussian_kde(X.numpy().ravel()).integrate_box_1d(-20, 20) == pytest.approx(total, abs=1e-3)


def test_bandwidth_is_the_one_under_which_rows_left_out_are_most_likely():
    rows, _ = make_moons(200, noise=0.05, random_state=0)
    narrow, wide = (Density(torch.from_numpy(X)) for X in (rows, draw(200, 2).numpy()))
    spread = np.sqrt(((rows - rows.mean(axis=0)) ** 2).mean())
    assert narrow.bandwidth / spread < wide.bandwidth
    assert np.isfinite(Density(torch.zeros(3, 2)).log_density(torch.ones(1, 2)).numpy()).all()


# -- training -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", METHODS)
def test_without_its_terms_it_is_the_supervised_network_to_the_bit(data, kind):
    X, y = data
    model = watched(kind, **STILL, **OFF[kind], noise=0.0).fit(X, y)
    assert len(model.batches) == STEPS
    for own, twin in zip(model.states, train_twin(model, X, y), strict=True):
        same_bits(own, twin)
    on = watched(kind, **STILL, noise=0.0).fit(X, y)
    assert any(not np.array_equal(on.states[-1][name], model.states[-1][name]) for name in model.states[-1])


@pytest.mark.parametrize("kind", METHODS)
def test_steps_of_the_opponents_leave_the_classifier_as_it_is(data, kind):
    X, y = data

    class Noted(kind):
        def _play(self, network, rows, X, loss_of, opponents, rng):
            def noted(i, loss):
                def of(batch):
                    weights = [p.detach().clone() for p in network.module.parameters()]
                    states = [{k: v.clone() for k, v in m.state_dict().items()} for m, _ in opponents]
                    self.before[i] = (weights, states)
                    return loss(batch)

                return of

            self.before = {}
            self.network, self.opponents = network, opponents
            pairs = [(module, noted(i, loss)) for i, (module, loss) in enumerate(opponents)]
            super()._play(network, rows, X, loss_of, pairs, rng)

    model = Noted(**{**STILL, "steps": 3}).fit(X, y)
    assert len(model.opponents) == (2 if kind is TripleGAN else 1)
    for i, (weights, states) in model.before.items():  # of the last step, before the i-th opponent moved
        for was, now in zip(weights, model.network.module.parameters(), strict=True):
            assert torch.equal(was, now)
        for j, ((module, _), state) in enumerate(zip(model.opponents, states, strict=True)):
            equal = all(torch.equal(state[name], value) for name, value in module.state_dict().items())
            assert equal is (j < i)  # those whose turn was over stay, the others still move
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.network.module.parameters())


@pytest.mark.parametrize("kind", METHODS)
def test_gradients_of_the_classifier_reach_it_alone(data, kind):
    X, y = data
    model = watched(kind, **{**STILL, "steps": 3}).fit(X, y)
    assert reached_by(model.losses[-1]) == set(model.network.module.parameters())


@pytest.mark.parametrize("kind", METHODS)
def test_predictions_are_of_the_average_of_the_weights_with_its_own_moments(data, kind):
    X, y = data
    model = watched(kind, **{**STILL, "steps": 200, "learning_rate": 1e-3}, decay=0.9).fit(X, y)
    for name in (name for name, _ in model.network.module.named_parameters()):
        mean = np.zeros_like(model.start[name], dtype=np.float64)
        for step, state in enumerate(model.states):
            keep = min(1 - 1 / (step + 1), 0.9)
            mean = keep * mean + (1 - keep) * state[name]
        np.testing.assert_allclose(model.network_weights_[name], mean, atol=1e-5)
    W, b = model.network_weights_["encoder.0.weight"], model.network_weights_["encoder.0.bias"]
    hidden = np.tanh(scaled(X).numpy() @ W.T + b)
    np.testing.assert_allclose(model.network_weights_["encoder.2.running_mean"], hidden.mean(axis=0), atol=0.15)


def test_losses_of_unlabeled_rows(data):
    X, y = data
    settings = {**STILL, "noise": 0.0, "steps": 1}
    plain, model, surer = (
        watched(ComplementGAN, **settings, **terms).fit(X, y)
        for terms in ({"weight": 0.0, "entropy": 0.0}, {"weight": 0.7, "entropy": 0.0}, {"weight": 0.0, "entropy": 0.3})
    )
    twin, batch = twin_of(model.start), model.batches[0]
    with torch.no_grad():
        scores = twin["head"](twin["encoder"](scaled(X)[torch.cat([batch.labeled, batch.unlabeled])]))
    scores = scores[len(batch.labeled) :].numpy()
    p, Z = torch.softmax(torch.from_numpy(scores), -1).numpy(), np.exp(scores).sum(axis=1)
    more = surer.losses[0].item() - plain.losses[0].item()
    assert more == pytest.approx(-0.3 * (p * np.log(p)).sum(axis=1).mean(), abs=1e-5)
    made = 2 * (model.losses[0].item() - plain.losses[0].item()) / 0.7 + np.log(Z / (Z + 1)).mean()
    assert made > 0  # what is left is -log(1 - D) of made-up rows


def test_density_counts_rows_by_their_weight_and_is_not_kept(data):
    X, y = data

    class Noted(ComplementGAN):
        def _prepare(self, rows, X, rng):
            super()._prepare(rows, X, rng)
            self.n = len(self._density.left_out)
            self.share = float((self._density.left_out < self._threshold).double().mean())

    weight = np.r_[np.ones(100), np.zeros(50)]
    model = Noted(**{**STILL, "steps": 2}, quantile=0.25).fit(X, y, sample_weight=weight)
    assert model.n == 100
    assert model.share == pytest.approx(0.25, abs=0.02)
    assert not {"_density", "_threshold"} & vars(model).keys()


# -- all ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", METHODS)
def test_finds_clusters_from_few_labels(kind):
    X, truth = make_blobs(300, centers=3, n_features=5, cluster_std=1.5, random_state=3)
    y = np.where(np.arange(300) < 12, truth, -1)
    model = kind(steps=100, random_state=0, device="cpu").fit(X, y)
    assert (model.predict(X)[12:] == truth[12:]).mean() > 0.85


@pytest.mark.parametrize("kind", METHODS)
def test_a_row_of_weight_zero_might_as_well_not_be_there(data, kind):
    X, y = data
    more, marks = np.vstack([X, 50 + X[:20]]), np.concatenate([y, y[:20]])
    model = kind(steps=20, random_state=0, device="cpu")
    alone = model.fit(X, y).predict_proba(X)
    weight = np.r_[np.ones(150), np.zeros(20)]
    again = clone(model).fit(more, marks, sample_weight=weight).predict_proba(X)
    np.testing.assert_allclose(again, alone, atol=1e-4)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (FeatureMatchingGAN(weight=-1.0), "weight"),
        (FeatureMatchingGAN(latent=0), "latent"),
        (FeatureMatchingGAN(noise=np.nan), "noise"),
        (FeatureMatchingGAN(decay=1.0), "decay"),
        (ComplementGAN(entropy=-0.1), "entropy"),
        (ComplementGAN(spread="much"), "spread"),
        (ComplementGAN(low_density=-1), "low_density"),
        (ComplementGAN(quantile=1.5), "quantile"),
        (TripleGAN(alpha=1.0), "alpha"),
        (TripleGAN(adversarial=-1), "adversarial"),
        (TripleGAN(pseudo=-1), "pseudo"),
        (TripleGAN(warm_up=1.0), "warm_up"),
    ],
)
def test_settings_that_make_no_sense(data, model, name):
    with pytest.raises(ParameterError, match=f"{name}="):
        model.fit(*data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", METHODS)
def test_follows_two_moons_with_ten_labels_each(kind):
    X, truth = make_moons(400, noise=0.08, random_state=0)
    r = rng(0)
    known = np.concatenate([r.choice(np.flatnonzero(truth == k), 10, replace=False) for k in range(2)])
    y = np.full(400, -1)
    y[known] = truth[known]
    model = kind(noise=0.1, dropout=0.0, l2=1e-5, learning_rate=1e-2, random_state=0, device="cpu").fit(X, y)
    assert (model.transduction_ == truth)[y < 0].mean() > 0.9

"""The variational autoencoders, the ladder network and the propagating networks, against their mathematics."""

import math

import numpy as np
import pytest
from sklearn.base import clone

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.distributions import Normal, kl_divergence  # noqa: E402

from deepsep.classifiers import (  # noqa: E402
    DeepLabelPropagation,
    LadderNetwork,
    LocalLabelPropagation,
    VariationalM1,
    VariationalM1M2,
    VariationalM2,
)
from deepsep.networks import NumpyNetwork  # noqa: E402
from deepsep.networks.mixed_batches import StepSettings, train_steps  # noqa: E402
from deepsep.zoo.consistency.ladder import Combinator, Ladder, denoising_costs  # noqa: E402
from deepsep.zoo.generative.variational_autoencoder import (  # noqa: E402
    VAE,
    ConditionalVAE,
    kl_to_standard_normal,
    marginal_bound,
    mean_over_rows,
    normal_log_density,
    reparametrise,
)
from deepsep.zoo.graphs.graph import one_hot  # noqa: E402
from deepsep.zoo.propagation.embedding_propagation import (  # noqa: E402  # noqa: E402  # noqa: E402
    aggregation_loss,
    certainty,
    class_weights,
    draw_bank,
    local_density,
    propagate,
    split_steps,
    unit_rows,
    vote,
    weighted_labels,
)

D, C = 6, 3


def rng(seed=0):
    return np.random.default_rng(seed)


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.tensor(rng(seed).standard_normal(shape), dtype=dtype)


def blobs(n=120, seed=0):
    """Three clusters, of which each has four labelled rows."""
    r = rng(seed)
    truth = np.arange(n) % C
    X = r.normal(size=(n, D)) + 4 * np.eye(C, D)[truth]
    y = np.full(n, -1)
    y[: 4 * C] = truth[: 4 * C]
    return X, y, truth


# -- variational autoencoders --------------------------------------------------------------------------------


def test_divergence_and_density_are_those_of_torch():
    mean, log_var, x = draw(7, 4), draw(7, 4, seed=1), draw(7, 4, seed=2)
    q = Normal(mean, (0.5 * log_var).exp())
    expected = kl_divergence(q, Normal(torch.zeros(4), torch.ones(4))).sum(-1)
    torch.testing.assert_close(kl_to_standard_normal(mean, log_var), expected)
    torch.testing.assert_close(normal_log_density(x, mean, log_var), q.log_prob(x).sum(-1))


def test_gradient_through_a_sample_is_that_of_the_expectation():
    # E z² = m² + s²: with respect to the mean 2 m, with respect to log s² it is s².
    mean = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    log_var = torch.tensor(-0.4, dtype=torch.float64, requires_grad=True)
    noise = torch.tensor([math.sqrt(3), 0.0, -math.sqrt(3)], dtype=torch.float64)  # Gauss-Hermite: exact for cubics
    weights = torch.tensor([1, 4, 1], dtype=torch.float64) / 6
    (weights * reparametrise(mean, log_var, noise).square()).sum().backward()
    assert mean.grad.item() == pytest.approx(2 * 0.7)
    assert log_var.grad.item() == pytest.approx(math.exp(-0.4))


def probabilistic_pca(latent=2):
    """A linear VAE with its exact posterior, and log p(x) in closed form (Tipping & Bishop 1999)."""
    vae = VAE(D, D, latent=latent, hidden=(), rng=rng()).double()
    # Orthogonal directions, and one variance for all features: then the posterior factorises, as q must.
    basis = torch.linalg.qr(draw(D, latent, seed=1))[0]
    W, b, var = basis * torch.tensor([2.0, 0.7], dtype=torch.float64), draw(D, seed=2), 0.3
    M = W.T @ W + var * torch.eye(latent, dtype=torch.float64)
    with torch.no_grad():
        vae.decoder[0].weight.copy_(W)
        vae.decoder[0].bias.copy_(b)
        vae.log_noise.fill_(math.log(var))
        vae.posterior.mean.weight.copy_(torch.linalg.solve(M, W.T))
        vae.posterior.mean.bias.copy_(-torch.linalg.solve(M, W.T) @ b)
        vae.posterior.log_var.weight.zero_()
        vae.posterior.log_var.bias.copy_((var / M.diagonal()).log())
    covariance = W @ W.T + var * torch.eye(D, dtype=torch.float64)
    return vae, torch.distributions.MultivariateNormal(b, covariance)


def expected_bound(vae, x):
    """The bound's expectation, exactly: here it is a quadratic of the noise, for which ±√k in each direction do."""
    k = vae.latent
    points = math.sqrt(k) * torch.cat([torch.eye(k), -torch.eye(k)]).double()
    return torch.stack([vae.bound(x, x, point.expand(len(x), k)) for point in points]).mean(0)


def test_bound_is_log_likelihood_where_the_posterior_is_exact():
    vae, truth = probabilistic_pca()
    x = 2 * draw(9, D, seed=3)
    torch.testing.assert_close(expected_bound(vae, x), truth.log_prob(x))


@pytest.mark.parametrize("part", ["mean.weight", "mean.bias", "log_var.bias", "log_var.weight"])
def test_bound_is_below_log_likelihood_by_the_divergence_of_the_posteriors(part):
    vae, truth = probabilistic_pca()
    x = 2 * draw(9, D, seed=3)
    exact = _posterior(vae, x)
    with torch.no_grad():
        vae.posterior.get_parameter(part).add_(0.3 * draw(*vae.posterior.get_parameter(part).shape, seed=4))
    gap = truth.log_prob(x) - expected_bound(vae, x)
    assert (gap > 1e-6).all()
    torch.testing.assert_close(gap, kl_divergence(_posterior(vae, x), exact).sum(-1))


def _posterior(vae, x):
    mean, log_var = (value.detach() for value in vae.posterior(x))
    return Normal(mean, (0.5 * log_var).exp())


def conditional(seed=0):
    return ConditionalVAE(D, C, latent=2, hidden=(5, 4), rng=rng(seed)).double()


def test_bound_of_a_class_is_that_of_the_network_on_row_and_one_hot_class():
    vae = conditional()
    with torch.no_grad():
        for i, parameter in enumerate(vae.parameters()):
            parameter.add_(0.3 * draw(*parameter.shape, seed=i))
    x, noise = draw(8, D, seed=1), draw(8, C, 2, seed=2)
    bounds = vae.bound(x, noise)
    for k in range(C):
        y = torch.eye(C, dtype=torch.float64)[k].expand(8, C)
        first = torch.cat([vae.from_x.weight, vae.from_y.T], 1)
        h = torch.tanh(torch.cat([x, y], 1) @ first.T + vae.from_x.bias)
        h = torch.tanh(vae.encoder[1](h))
        mean, std = vae.posterior.mean(h), (0.5 * vae.posterior.log_var(h)).exp()
        z = mean + std * noise[:, k]
        back = torch.cat([vae.from_z.weight, vae.to_x.T], 1)
        h = torch.tanh(torch.cat([z, y], 1) @ back.T + vae.from_z.bias)
        rebuilt = vae.decoder[1](h)
        density = Normal(rebuilt, (0.5 * vae.log_noise).exp()).log_prob(x).sum(-1)
        divergence = kl_divergence(Normal(mean, std), Normal(torch.zeros(2), torch.ones(2))).sum(-1)
        torch.testing.assert_close(bounds[:, k], density - divergence)


def test_bound_without_the_class_is_the_literal_sum_over_classes():
    log_q, bounds = torch.log_softmax(draw(5, C), -1), 3 * draw(5, C, seed=1)
    for row in range(5):
        total = 0.0
        for k in range(C):
            q = math.exp(log_q[row, k])
            total += q * bounds[row, k].item() - q * math.log(q)
        assert marginal_bound(log_q, bounds)[row].item() == pytest.approx(total)
    # It is at its best, log Σ exp L(x, y), where q is the posterior of the classes.
    best = marginal_bound(torch.log_softmax(bounds, -1), bounds)
    torch.testing.assert_close(best, bounds.logsumexp(-1))
    assert (marginal_bound(log_q, bounds) < best).all()


def test_mean_over_rows_undoes_the_share_of_labeled_rows_in_a_batch():
    values = torch.tensor([1.0, 3.0, 10.0])
    assert mean_over_rows(values, 2, 0.25).item() == pytest.approx(0.25 * 2 + 0.75 * 10)
    assert mean_over_rows(values, 3, 1.0).item() == pytest.approx(14 / 3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_m1_predicts_as_logistic_regression_on_the_means(n_classes):
    # The classifier is folded into the network's head; this takes it out again.
    from sklearn.linear_model import LogisticRegression

    X, y, _ = blobs()
    X, y = (X[y < 2], y[y < 2]) if n_classes == 2 else (X, y)
    kept = {}

    class Listening(VariationalM1):
        def _train(self, network, rows, loss_of, rng, **others):
            kept.update(network=network, vae=others["extra"])
            return super()._train(network, rows, loss_of, rng, **others)

    model = Listening(steps=60, latent=3, random_state=0, device="cpu").fit(X, y)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    h = torch.tensor(kept["network"].embed(scaled.astype(np.float32)))
    means = kept["vae"].posterior.mean(h).detach().numpy()
    classifier = LogisticRegression(max_iter=1000).fit(means[y >= 0], y[y >= 0])
    np.testing.assert_allclose(model.predict_proba(X), classifier.predict_proba(means), atol=2e-4)


def test_m2_with_a_heavy_alpha_is_the_supervised_network():
    # Adam does not see the scale of a loss: as α grows, the bound has no say. Every batch has all rows.
    from deepsep.classifiers import EntropyNetwork

    X, y, _ = blobs()
    common = {"steps": 30, "unlabeled_batch": 128, "random_state": 0, "device": "cpu", "dropout": 0.0, "l2": 0.0}
    twin = EntropyNetwork(entropy=0.0, **common).fit(X, y).predict_proba(X)
    heavy, light = (VariationalM2(alpha=alpha, **common).fit(X, y).predict_proba(X) for alpha in (1e6, 0.1))
    np.testing.assert_allclose(heavy, twin, atol=5e-3)
    assert np.abs(light - twin).max() > 0.02


class Stacked(VariationalM1M2):
    """Notes both networks, and what the second one is given."""

    def _train(self, network, rows, loss_of, rng, **others):
        if not hasattr(self, "parts"):
            self.parts = []
        self.parts.append((network, others["extra"], loss_of))
        return super()._train(network, rows, loss_of, rng, **others)


def codes_of(model, X):
    """The mean and the deviation of q(z₁|x), from M1's parts."""
    (network, vae, _), _ = model.parts
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    with torch.no_grad():
        mean, log_var = vae.posterior(torch.tensor(network.embed(scaled.astype(np.float32))))
    return mean, (0.5 * log_var).exp()


@pytest.mark.parametrize("hidden", [(16, 8), (16,)])
def test_m1m2_predicts_by_the_classifier_of_the_mean_code(hidden):
    # The two networks are folded into one; this takes them apart.
    X, y, _ = blobs()
    model = Stacked(code_steps=60, steps=60, latent=3, hidden=hidden, random_state=0, device="cpu").fit(X, y)
    classifier = model.parts[1][0]
    assert classifier.input_shape == (3,)
    with torch.no_grad():
        p = torch.softmax(classifier.scores(codes_of(model, X)[0]), -1)
    np.testing.assert_allclose(model.predict_proba(X), p, atol=1e-5)
    assert p.max() - p.min() > 0.3


def test_the_code_of_m1m2_is_that_of_m1():
    X, y, _ = blobs()
    common = {"latent": 3, "hidden": (16, 8), "random_state": 0, "device": "cpu"}
    alone = VariationalM1(steps=60, **common).fit(X, y).network_weights_
    stacked = VariationalM1M2(code_steps=60, steps=5, **common).fit(X, y).network_weights_
    shared = [name for name in alone if name.startswith("encoder.")]
    assert shared
    for name in shared:
        np.testing.assert_array_equal(stacked[name], alone[name])


def test_m2_sees_samples_of_the_code_and_all_rows():
    from deepsep.networks.mixed_batches import Batch

    X, y, _ = blobs()
    model = Stacked(code_steps=60, steps=5, latent=3, random_state=0, device="cpu").fit(X, y)
    classifier, _, loss_of = model.parts[1]
    labeled, unlabeled = (torch.from_numpy(np.flatnonzero(known)) for known in (y >= 0, y < 0))
    batch, seen = Batch(labeled, unlabeled, torch.tensor(0.0), torch.tensor(0.0)), []
    scores = classifier.scores
    classifier.scores = lambda rows: seen.append(rows) or scores(rows)
    torch.manual_seed(0)
    for _ in range(400):
        loss_of(batch)
    mean, deviation = (part[torch.cat([labeled, unlabeled])] for part in codes_of(model, X))
    z = torch.stack(seen)
    assert ((z.mean(0) - mean).abs() < 5 * deviation / 20).all()
    np.testing.assert_allclose(z.std(0) / deviation, 1, atol=0.25)


# -- the ladder network --------------------------------------------------------------------------------------


def test_combinator_is_the_formula_of_the_paper():
    g = Combinator(4).double()
    with torch.no_grad():
        g.a.copy_(draw(10, 4))
    z, u = draw(5, 4, seed=1), draw(5, 4, seed=2)
    out = g(z, u)
    a = g.a.detach().numpy()
    for i in range(5):
        for j in range(4):
            t = u[i, j].item()
            mu = a[0, j] / (1 + math.exp(-(a[1, j] * t + a[2, j]))) + a[3, j] * t + a[4, j]
            v = a[5, j] / (1 + math.exp(-(a[6, j] * t + a[7, j]))) + a[8, j] * t + a[9, j]
            assert out[i, j].item() == pytest.approx((z[i, j].item() - mu) * v + mu)


def test_combinator_can_denoise_a_normal_variable_best():
    # z ~ N(m, s²) seen with noise of variance t²: E[z | z̃] = m + (z̃ - m) s² / (s² + t²), with m given by u.
    g = Combinator(1).double()
    with torch.no_grad():
        g.a.zero_()
        g.a[3], g.a[9] = 1.0, 0.8  # μ(u) = u, v(u) = 4 / (4 + 1)
    r = rng()
    m = r.normal(size=200_000)
    z = m + 2 * r.normal(size=m.size)
    seen = z + r.normal(size=m.size)
    error = (g(torch.tensor(seen[:, None]), torch.tensor(m[:, None])).detach().numpy().ravel() - z).var()
    assert error == pytest.approx(4 / 5, rel=0.02)


def ladder(seed=0):
    return Ladder(D, C, hidden=(5, 4), rng=rng(seed))


def test_cost_is_nothing_where_the_decoder_reproduces_the_clean_layers():
    net, x = ladder(), draw(20, D, dtype=torch.float32)
    clean = net.encode(x)
    # Undo the normalisation that the cost applies.
    exact = [z * std + mean for z, mean, std in zip(clean.z, clean.mean, clean.std, strict=True)]
    for cost in denoising_costs(clean, exact):
        assert cost.item() < 1e-10
    off = [layer + 0.1 * clean.std[i] for i, layer in enumerate(exact)]
    for cost in denoising_costs(clean, off):
        assert cost.item() == pytest.approx(0.01, rel=1e-3)


def test_encoder_and_decoder_written_out():
    net, x = ladder().double(), draw(20, D, seed=1)
    with torch.no_grad():
        for i, parameter in enumerate(net.parameters()):
            parameter.add_(0.3 * draw(*parameter.shape, seed=i))
    noise = [0.3 * draw(20, m, seed=10 + m) for m in net.widths]

    def norm(a):
        return (a - a.mean(0)) / torch.sqrt(((a - a.mean(0)) ** 2).mean(0) + 1e-5)

    W, V = [layer.weight for layer in net.linears], [layer.weight for layer in net.backs]
    z0 = x + noise[0]
    z1 = norm(z0 @ W[0].T) + noise[1]
    z2 = norm(torch.tanh(net.gamma[0] * (z1 + net.beta[0])) @ W[1].T) + noise[2]
    z3 = norm(torch.tanh(net.gamma[1] * (z2 + net.beta[1])) @ W[2].T) + noise[3]
    scores = net.gamma[2] * (z3 + net.beta[2])
    noisy = net.encode(x, noise)
    torch.testing.assert_close(noisy.scores, scores)
    for ours, theirs in zip(noisy.z, (z0, z1, z2, z3), strict=True):
        torch.testing.assert_close(ours, theirs)
    h3 = net.combinators[3](z3, norm(torch.softmax(scores, 1)))
    h2 = net.combinators[2](z2, norm(h3 @ V[2].T))
    h1 = net.combinators[1](z1, norm(h2 @ V[1].T))
    h0 = net.combinators[0](z0, norm(h1 @ V[0].T))
    for ours, theirs in zip(net.decode(noisy), (h0, h1, h2, h3), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_without_noise_and_denoising_it_is_the_supervised_network():
    X, y, _ = blobs()
    settings = {"steps": 30, "random_state": 0, "device": "cpu", "l2": 0.0}
    model = LadderNetwork(noise=0.0, denoising=(0,), **settings).fit(X, y)

    # The twin: layers of torch alone, under the same start and the same batches.
    twin = nn.Sequential(
        *(nn.Linear(D, 128, bias=False), nn.BatchNorm1d(128), nn.Tanh()),
        *(nn.Linear(128, 32, bias=False), nn.BatchNorm1d(32), nn.Tanh()),
        *(nn.Linear(32, C, bias=False), nn.BatchNorm1d(C)),
    )
    generator = np.random.default_rng(np.random.RandomState(0).randint(2**31 - 1))
    start = Ladder(D, C, hidden=(128, 32), rng=generator)
    with torch.no_grad():
        for mine, theirs in zip((twin[0], twin[3], twin[6]), start.linears, strict=True):
            mine.weight.copy_(theirs.weight)
    rows = torch.tensor((X - X.mean(axis=0)) / X.std(axis=0), dtype=torch.float32)
    codes = torch.tensor(y)

    def loss_of(batch):
        scores = twin(rows[batch.both])
        return nn.functional.cross_entropy(scores[: len(batch.labeled)], codes[batch.labeled])

    train_steps(
        twin,
        loss_of,
        StepSettings(steps=30, lr=1e-3, batch_size=32, unlabeled_batch=128),
        decays=[(p, 0.0) for p in twin.parameters()],
        labeled=np.flatnonzero(y >= 0),
        unlabeled=np.flatnonzero(y < 0),
        rng=generator,
        weight=np.ones(len(y)),
    )
    expected = torch.softmax(twin(rows), 1).detach().numpy()
    # γ (z + β) and γ z + β are the same functions, but Adam moves them differently where γ is not 1.
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=5e-3)
    other = LadderNetwork(noise=0.5, **settings).fit(X, y).predict_proba(X)
    assert np.abs(other - expected).max() > 0.02


def test_saved_state_of_the_ladder_is_its_clean_pass():
    net, x = ladder(), draw(20, D, dtype=torch.float32)
    with torch.no_grad():
        for i, parameter in enumerate(net.parameters()):
            parameter.add_(0.3 * draw(*parameter.shape, seed=i, dtype=torch.float32))
        for i, norm in enumerate(net.norms):
            norm.running_mean.copy_(draw(norm.num_features, seed=i))
            norm.running_var.copy_(draw(norm.num_features, seed=9 + i).exp())
    h = x
    for i, layer in enumerate(net.linears):
        z = (layer(h) - net.norms[i].running_mean) / torch.sqrt(net.norms[i].running_var + 1e-5)
        h = net.gamma[i] * (z + net.beta[i])
        h = torch.tanh(h) if i < 2 else h
    plain = NumpyNetwork(D, C, hidden=(5, 4), rng=rng())
    plain.load_state(net.state())
    np.testing.assert_allclose(plain.predict_proba(x.numpy()), torch.softmax(h, 1).detach().numpy(), atol=1e-5)


def test_running_moments_follow_the_clean_pass_only():
    net, x = ladder(), draw(20, D, dtype=torch.float32)
    net.train()
    net.encode(x, [torch.randn(20, m) for m in net.widths])
    assert (net.norms[0].running_mean == 0).all()
    net.encode(x)
    norm = nn.BatchNorm1d(5)
    norm(net.linears[0](x))
    torch.testing.assert_close(net.norms[0].running_mean, norm.running_mean)
    torch.testing.assert_close(net.norms[0].running_var, norm.running_var)


# -- deep label propagation ----------------------------------------------------------------------------------


def test_propagation_is_the_dense_solution():
    V = unit_rows(rng().normal(size=(40, 4)))
    codes = np.full(40, -1)
    codes[:6] = [0, 1, 2, 0, 1, 2]
    Y = np.eye(C + 1)[codes][:, :C]
    k, alpha, gamma = 7, 0.99, 3.0
    similarity = V @ V.T
    A = np.zeros((40, 40))
    for i in range(40):
        others = sorted((j for j in range(40) if j != i), key=lambda j: -similarity[i, j])
        for j in others[:k]:
            A[i, j] = max(0, similarity[i, j]) ** gamma
    W = A + A.T
    degree = W.sum(axis=1)
    S = W / np.sqrt(np.outer(degree, degree))
    expected = np.linalg.solve(np.eye(40) - alpha * S, Y)
    np.testing.assert_allclose(propagate(V, Y, k=k, alpha=alpha, gamma=gamma), expected, atol=1e-8)


def test_weights_are_the_literal_formula():
    Z = np.array([[0.2, 0.1, 0.1], [0.0, 0.5, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    for row, got in zip(Z, certainty(Z), strict=True):
        if row.sum() == 0:
            assert got == 0
            continue
        p = row / row.sum()
        entropy = -sum(v * math.log(v) for v in p if v > 0)
        assert got == pytest.approx(1 - entropy / math.log(3), abs=1e-12)
    labels, weight = np.array([0, 0, 0, 1, 2, 2]), np.ones(6)
    got = class_weights(labels, weight, 3)
    np.testing.assert_allclose(got, 2 / np.array([3, 1, 2]))
    assert got[labels].mean() == pytest.approx(1)


def test_rows_that_no_label_reaches_have_no_weight():
    r = rng()
    # Two bundles of directions at right angles: all similarities between them are 0 or less.
    near = np.abs(r.normal(size=(30, 2))) + 1
    V = unit_rows(np.vstack([np.hstack([near[:15], np.zeros((15, 2))]), np.hstack([np.zeros((15, 2)), near[15:]])]))
    codes = np.full(30, -1)
    codes[:4] = [0, 1, 0, 1]
    spread = weighted_labels(propagate(V, one_hot(codes, 2), k=5, alpha=0.99, gamma=3.0), codes, np.ones(30))
    assert (spread.weight[15:] == 0).all()
    assert (spread.weight[:4] > 0).all()
    assert (spread.weight[4:15] > 0).any()
    # Nor do they count in the size of a class.
    counts = np.bincount(spread.codes[:15], minlength=2)
    np.testing.assert_allclose(spread.weight[:4], (15 / (2 * counts))[codes[:4]])


# -- local label propagation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 4, 50])
def test_votes_and_densities_are_those_of_a_double_loop(k):
    r = rng()
    V, tau, near = unit_rows(r.normal(size=(30, 3))), 0.2, 5
    codes = np.full(30, -1)
    codes[:9] = np.arange(9) % C
    density = []
    for j in range(9):
        closeness = sorted((math.exp(V[i] @ V[j] / tau) for i in range(30)), reverse=True)
        density.append(sum(closeness[:near]))
    np.testing.assert_allclose(local_density(V, np.arange(9), k=near, temperature=tau), density, rtol=1e-5)
    voted = vote(V, V[:9], codes[:9], 1 / np.array(density), k=k, temperature=tau, n_classes=C)
    for i in range(30):
        counts = sorted(((math.exp(V[i] @ V[j] / tau) / density[j], codes[j]) for j in range(9)), reverse=True)[:k]
        votes = [sum(w for w, label in counts if label == c) for c in range(C)]
        np.testing.assert_allclose(voted[i], np.array(votes) / sum(votes), rtol=1e-5, atol=1e-12)


def test_vote_does_not_depend_on_blocks():
    r = rng()
    V, loud = unit_rows(r.normal(size=(30, 3))), r.random(8) + 0.1
    args = (V, V[:8], np.arange(8) % C, loud)
    whole = vote(*args, k=3, temperature=0.1, n_classes=C)
    np.testing.assert_allclose(vote(*args, k=3, temperature=0.1, n_classes=C, block=7), whole, atol=1e-12)
    np.testing.assert_allclose(whole.sum(axis=1), 1)


def test_metric_term_is_minus_the_log_of_the_share_of_alike_rows():
    r = rng()
    V, h, tau = unit_rows(r.normal(size=(20, 4))), r.normal(size=(6, 4)), 0.3
    codes, goal = np.arange(20) % C, np.array([0, 1, 2, 2, 1, 0])
    bank = torch.tensor(V, dtype=torch.float32)
    got = aggregation_loss(torch.tensor(h, dtype=torch.float32), torch.tensor(goal), bank, torch.tensor(codes), tau)
    for row, label, value in zip(unit_rows(h), goal, got.tolist(), strict=True):
        closeness = [math.exp(row @ v / tau) for v in V]
        alike = sum(c for c, other in zip(closeness, codes, strict=True) if other == label)
        assert value == pytest.approx(-math.log(alike / sum(closeness)), rel=1e-4, abs=1e-5)


def test_bank_has_every_class_once_at_least():
    codes = np.zeros(1000, int)
    codes[[3, 700]] = 1, 2
    for seed in range(5):
        kept = draw_bank(codes, rng(seed), size=10)
        assert set(codes[kept]) == {0, 1, 2}
        assert len(kept) <= 10
        assert len(set(kept)) == len(kept)


# -- all -----------------------------------------------------------------------------------------------------

SHORT = [
    VariationalM1(steps=150, latent=4),
    VariationalM2(steps=100, latent=4),
    VariationalM1M2(code_steps=150, steps=100, latent=4),
    LadderNetwork(steps=100),
    DeepLabelPropagation(steps=100, warm_up=0.4, rounds=3, n_neighbors=10),
    LocalLabelPropagation(steps=100, warm_up=0.4, rounds=3),
]


@pytest.mark.parametrize("model", SHORT, ids=lambda m: type(m).__name__)
def test_finds_clusters_from_few_labels(model):
    X, y, truth = blobs(300)
    model = clone(model).set_params(random_state=0, device="cpu").fit(X, y)
    assert (model.predict(X)[y < 0] == truth[y < 0]).mean() > 0.85
    assert np.isfinite(model.label_distributions_).all()


@pytest.mark.parametrize("model", SHORT, ids=lambda m: type(m).__name__)
def test_a_row_of_weight_zero_might_as_well_not_be_there(model):
    X, y, _ = blobs(100)
    more, marks = np.vstack([X, 50 + X[:20]]), np.concatenate([y, y[:20]])
    model = clone(model).set_params(steps=20, random_state=0, device="cpu")
    alone = model.fit(X, y).predict_proba(X)
    weight = np.r_[np.ones(100), np.zeros(20)]
    np.testing.assert_allclose(model.fit(more, marks, sample_weight=weight).predict_proba(X), alone, atol=1e-4)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (VariationalM1(latent=0), "latent=0"),
        (VariationalM1(C=0.0), "C=0.0"),
        (VariationalM2(alpha=-1.0), "alpha=-1.0"),
        (VariationalM1M2(code_steps=0), "code_steps=0"),
        (LadderNetwork(noise=-0.1), "noise=-0.1"),
        (LadderNetwork(denoising=(1.0,) * 5), "up to 4 numbers"),
        (LadderNetwork(denoising=()), "up to 4 numbers"),
        (LadderNetwork(denoising=1.0), "denoising=1.0"),
        (DeepLabelPropagation(alpha=1.0), "alpha=1.0"),
        (DeepLabelPropagation(warm_up=1.0), "warm_up=1.0"),
        (LocalLabelPropagation(temperature=0.0), "temperature=0.0"),
        (LocalLabelPropagation(rounds=0), "rounds=0"),
    ],
)
def test_settings_that_make_no_sense(model, message):
    X, y, _ = blobs()
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_rounds_share_the_steps():
    assert split_steps(20, 0.5, 3) == [10, 4, 3, 3]
    assert sum(split_steps(1999, 0.3, 7)) == 1999
    assert split_steps(3, 0.25, 10) == [1, 1, 1]
    assert split_steps(1, 0.25, 10) == [1]

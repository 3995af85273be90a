"""The null-category Gaussian process and deep kernels: beside integrals, general-purpose solvers and scikit-learn."""

import copy

import numpy as np
import pytest
import torch
from rows import blobs, moons
from scipy.integrate import quad
from scipy.linalg import cholesky
from scipy.optimize import minimize
from scipy.special import log_ndtr, softmax
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from torch import nn

from deepsep import load, save
from deepsep.classifiers import DeepKernel, NullCategoryGP
from deepsep.core.training_rows import TrainingRows
from deepsep.zoo.kernels.deep_kernel import FrozenKernel, KernelHead, centred_targets
from deepsep.zoo.transductive.null_category_gp import (
    InducingFeatures,
    NullCategory,
    SitePlan,
    expected_log_likelihood,
    fit_null_category,
    given_sites,
    log_likelihood,
    offset_for,
    share_of_positive,
)

LONG = SitePlan(rounds=5, max_iter=2000, damping=0.5, tol=1e-10)


def kernel_features(X, gamma=0.5, variance=4.0):
    """Return features whose inner products are the kernel of all rows."""
    return cholesky(variance * rbf_kernel(X, gamma=gamma) + 1e-9 * np.eye(len(X)), lower=True)


# -- the null category -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [0.0, 1.0, 3.0])
def test_likelihood_is_the_paper_s_and_has_its_slope(width):
    f = np.linspace(-6, 6, 41)
    own, other = norm.cdf(f - width / 2), norm.cdf(-f - width / 2)
    for sign, p in ((1.0, own), (-1.0, other), (0.0, own + other)):
        value, slope = log_likelihood(f[:, None], np.full((41, 1), sign), width)
        np.testing.assert_allclose(np.exp(value[:, 0]), p, rtol=1e-9)
        ahead, behind = (log_likelihood(f[:, None] + d, np.full((41, 1), sign), width)[0] for d in (1e-5, -1e-5))
        np.testing.assert_allclose(slope, (ahead - behind) / 2e-5, atol=1e-6)
    null = norm.cdf(f + width / 2) - norm.cdf(f - width / 2)
    np.testing.assert_allclose(own + other + null, 1)


@pytest.mark.parametrize("sign", [-1.0, 0.0, 1.0])
def test_expectations_are_the_integrals(sign):
    mu, variance, width = np.array([-1.3, 0.2, 2.0]), np.array([0.3, 1.0, 2.5]), 1.0

    def integral(m, v):
        def value(f):
            return float(log_likelihood(np.array([[f]]), np.array([[sign]]), width)[0][0, 0] * norm.pdf(f, m, v**0.5))

        return quad(value, m - 12 * v**0.5, m + 12 * v**0.5, epsabs=1e-10)[0]

    got = expected_log_likelihood(mu, variance, np.full(3, sign), width)
    for i, (m, v) in enumerate(zip(mu, variance, strict=True)):
        assert got.value[i] == pytest.approx(integral(m, v), abs=3e-4)
        assert got.in_mean[i] == pytest.approx((integral(m + 1e-3, v) - integral(m - 1e-3, v)) / 2e-3, abs=2e-3)
        assert got.in_variance[i] == pytest.approx((integral(m, v + 1e-3) - integral(m, v - 1e-3)) / 2e-3, abs=2e-3)


def test_one_labeled_row_is_the_gaussian_closest_to_the_exact_posterior():
    z, width = 1.7, 1.0  # f = z v
    q = fit_null_category(np.array([[z]]), np.zeros(1), np.ones(1), np.ones(1), width=width, plan=LONG).posterior

    def log_joint(v):
        return log_ndtr(z * v - width / 2) + norm.logpdf(v)

    def divergence(theta):
        """Return KL(q || posterior), up to a constant, for q = N(theta[0], exp(theta[1])²)."""
        mean, deviation = theta[0], np.exp(theta[1])
        lost = quad(lambda t: norm.pdf(t) * log_joint(mean + deviation * t), -10, 10, epsabs=1e-12)[0]
        return -theta[1] - lost

    best = minimize(divergence, [0.5, -0.3], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}).x
    assert q.mean[0] == pytest.approx(best[0], abs=1e-4)
    assert q.root[0, 0] == pytest.approx(np.exp(best[1]), abs=1e-4)
    mass = quad(lambda v: np.exp(log_joint(v)), -10, 10)[0]
    exact = quad(lambda v: v * np.exp(log_joint(v)), -10, 10)[0] / mass
    assert q.mean[0] == pytest.approx(exact, abs=0.05)


def general_optimum(Z, residual, sign, width, start):
    """Return the highest ELBO over all Gaussians (mean, Cholesky factor), by a general-purpose solver."""
    m = Z.shape[1]
    at = np.tril_indices(m)

    def unpack(theta):
        L = np.zeros((m, m))
        L[at] = theta[m:]
        return theta[:m], L

    def loss(theta):
        mean, L = unpack(theta)
        spread = Z @ L
        got = expected_log_likelihood(Z @ mean, residual + np.square(spread).sum(axis=1), sign, width)
        log_det = 2 * np.log(np.abs(np.diag(L))).sum()
        value = got.value.sum() - 0.5 * (np.square(L).sum() + mean @ mean - m - log_det)
        slope = 2 * Z.T @ (got.in_variance[:, None] * spread) - L + np.diag(1 / np.diag(L))
        return -value, -np.concatenate([Z.T @ got.in_mean - mean, slope[at]])

    first = np.concatenate([start.mean, cholesky(start.root.T @ start.root, lower=True)[at]])
    found = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-14, "gtol": 1e-9})
    return -found.fun, unpack(found.x)[0]


def test_labeled_rows_reach_the_optimum_of_a_general_solver():
    X, y, _ = moons(12, 6)
    Z, sign = kernel_features(X), np.where(y == 1, 1.0, -1.0)
    found = fit_null_category(Z, np.zeros(12), sign, np.ones(12), width=1.0, plan=LONG)
    prior = NullCategory(np.zeros(12), np.eye(12), 0.0, 1.0)
    best, mean = general_optimum(Z, np.zeros(12), sign, 1.0, prior)
    assert found.converged
    assert found.elbo_path[-1] == pytest.approx(best, abs=1e-6)
    np.testing.assert_allclose(found.posterior.mean, mean, atol=1e-3)


def test_unlabeled_rows_end_close_below_the_optimum_of_a_general_solver():
    """Precisions of sites are kept at 0 or above: the general solver, which does not, may be a little higher."""
    X, y, _ = moons(30, 3)
    Z, sign = kernel_features(X, gamma=2.0), np.where(y < 0, 0.0, 2.0 * y - 1)
    found = fit_null_category(Z, np.zeros(30), sign, np.ones(30), width=1.0, plan=LONG)
    best, _ = general_optimum(Z, np.zeros(30), sign, 1.0, found.posterior)
    assert best - 0.5 < found.elbo_path[-1] <= best + 1e-9
    mu, variance = found.posterior.moments(Z, np.zeros(30))
    slope = expected_log_likelihood(mu, variance, sign, 1.0).in_mean
    np.testing.assert_allclose(found.posterior.mean, Z.T @ slope, atol=1e-6)  # where no other mean is better


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_the_bound_never_falls(gamma):
    X, y, _ = moons(100, 3)
    Z, sign = kernel_features(X, gamma=gamma), np.where(y < 0, 0.0, 2.0 * y - 1)
    plan = SitePlan(rounds=10, max_iter=60, damping=0.1, tol=1e-8)
    path = fit_null_category(Z, np.zeros(100), sign, np.ones(100), width=1.0, plan=plan).elbo_path
    assert np.diff(path).min() > -1e-4
    assert path[-1] > path[0] + 0.1


def test_without_width_and_unlabeled_rows_it_is_the_probit_process():
    """With w = 0 an unlabelled row has likelihood 1, whatever f is."""
    X, y, _ = moons(60, 6)
    Z, lab = kernel_features(X), y >= 0
    sign = np.where(lab, 2.0 * y - 1, 0.0)
    with_them = fit_null_category(Z, np.zeros(60), sign, np.ones(60), width=0.0, plan=LONG).posterior
    alone = fit_null_category(Z[lab], np.zeros(12), sign[lab], np.ones(12), width=0.0, plan=LONG).posterior
    np.testing.assert_allclose(with_them.mean, alone.mean, atol=1e-6)
    p = with_them.probabilities(Z, np.zeros(60))
    mu, variance = with_them.moments(Z, np.zeros(60))
    np.testing.assert_allclose(p, norm.cdf(mu / np.sqrt(1 + variance)), atol=1e-9)
    # The prior's precision times the mean is the slope of the expected log likelihood.
    slope = expected_log_likelihood(mu[lab], variance[lab], sign[lab], 0.0).in_mean
    np.testing.assert_allclose(with_them.mean, Z[lab].T @ slope, atol=1e-5)


def test_sites_that_say_nothing_leave_the_prior():
    mean, root = given_sites(np.ones((3, 2)), np.zeros(3), np.zeros(3))
    np.testing.assert_array_equal(mean, 0)
    np.testing.assert_array_equal(root, np.eye(2))


def test_mirrored_labels_mirror_the_process():
    X, y, _ = moons(80, 3)
    Z, sign = kernel_features(X), np.where(y < 0, 0.0, 2.0 * y - 1)
    one, other = (
        fit_null_category(Z, np.zeros(80), s * sign, np.ones(80), width=1.0, share=share).posterior
        for s, share in ((1, 0.3), (-1, 0.7))
    )
    np.testing.assert_allclose(one.mean, -other.mean, atol=1e-6)
    assert one.offset == pytest.approx(-other.offset, abs=1e-6)


def test_offset_gives_the_share():
    rng = np.random.default_rng(0)
    mu, variance, weight = rng.normal(size=50) * 3, rng.exponential(size=50), rng.random(50)
    for share in (0.001, 0.3, 0.999):
        b = offset_for(share, mu, variance, weight, 1.0)
        assert np.average(share_of_positive(mu + b, variance, 1.0), weights=weight) == pytest.approx(share, abs=1e-8)


def test_inducing_features_explain_the_kernel_at_their_points():
    X = np.random.default_rng(0).normal(size=(40, 3))
    features = InducingFeatures.of(X[:15], 2.5, lambda a, b: rbf_kernel(a, b, gamma=0.4))
    Z, residual = features(X)
    K = 2.5 * rbf_kernel(X, gamma=0.4)
    explained = K[:, :15] @ np.linalg.solve(K[:15, :15], K[:15])
    np.testing.assert_allclose(Z @ Z.T, explained, atol=1e-6)
    np.testing.assert_allclose(residual, np.diag(K - explained), atol=1e-6)
    centred = features.centred(Z, np.arange(40.0))
    np.testing.assert_allclose(np.arange(40.0) @ centred(X)[0], 0, atol=1e-9)


def test_it_follows_the_moons():
    X, y, truth = moons(400, 2, seed=2)
    model = NullCategoryGP(gamma=5.0, unlabeled_weight=1.0, balance="labels", random_state=0).fit(X, y)
    assert (model.transduction_ == truth).mean() > 0.97
    alone = NullCategoryGP(gamma=5.0, unlabeled_weight=0.0, random_state=0).fit(X, y)
    assert (alone.transduction_ == truth).mean() < 0.95


def test_shares_are_as_asked():
    X, y, _ = moons(200, 5)
    free = y < 0
    model = NullCategoryGP(balance="labels", random_state=0).fit(X, y)
    assert model.label_distributions_[free, 1].mean() == pytest.approx(0.5, abs=1e-6)
    for balance in (None, "predicted", "labels"):
        model = NullCategoryGP(priors={0: 0.7, 1: 0.3}, balance=balance, random_state=0).fit(X, y)
        assert model.label_distributions_[free, 1].mean() == pytest.approx(0.3, abs=1e-5)
    X, y, _ = blobs()
    model = NullCategoryGP(priors={0: 0.5, 1: 0.3, 2: 0.2}, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.label_distributions_[y < 0].mean(axis=0), [0.5, 0.3, 0.2], atol=1e-5)


def test_a_weight_is_so_many_rows():
    X, y, _ = blobs(60)
    weight = np.random.default_rng(0).integers(0, 4, 60).astype(float)
    weight[y >= 0] = np.maximum(weight[y >= 0], 1)
    weighted = NullCategoryGP(n_inducing=300, random_state=0).fit(X, y, sample_weight=weight)
    again = np.repeat(np.arange(60), weight.astype(int))
    copied = NullCategoryGP(n_inducing=300, random_state=0).fit(X[again], y[again])
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-5)


def test_few_inducing_points_are_close_to_all():
    X, y, _ = blobs(300, 5)
    few, all_of_them = (NullCategoryGP(n_inducing=m, random_state=0).fit(X, y) for m in (60, 300))
    assert len(few.inducing_points_) <= 60
    assert (few.transduction_ == all_of_them.transduction_).mean() > 0.95


def test_a_saved_process_keeps_what_it_says(tmp_path):
    X, y, _ = blobs()
    model = NullCategoryGP(priors={0: 0.5, 1: 0.3, 2: 0.2}, random_state=0).fit(X, y)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    for name in ("offset_", "converged_", "inducing_points_", "prior_shift_", "n_iter_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert [path.tolist() for path in again.elbo_path_] == [path.tolist() for path in model.elbo_path_]


# -- deep kernels ----------------------------------------------------------------------------------------------


@pytest.fixture
def embedded():
    rng = np.random.default_rng(0)
    return np.tanh(rng.normal(size=(25, 4))), rng.normal(size=(25, 3)), np.tanh(rng.normal(size=(9, 4)))


def head_with(length, variance, noise, width=4):
    head = KernelHead(width)
    with torch.no_grad():
        for parameter, value in ((head.log_length, length), (head.log_variance, variance), (head.log_noise, noise)):
            parameter.fill_(np.log(value))
    return head


def test_costs_are_those_of_scikit_learn(embedded):
    known, Y, others = embedded
    head = head_with(0.8, 1.7, 0.3)
    length, variance, noise = (value.item() for value in head.settings())
    loss, posterior = head.costs(*(torch.from_numpy(part) for part in (known, Y, others)))
    kernel = ConstantKernel(variance) * RBF(length) + WhiteKernel(noise)
    twin = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(known, Y)
    assert loss.item() == pytest.approx(-twin.log_marginal_likelihood_value_ / Y.size, abs=1e-9)
    covariance = kernel(known)
    by_hand = sum(multivariate_normal.logpdf(column, np.zeros(25), covariance) for column in Y.T)
    assert loss.item() == pytest.approx(-by_hand / Y.size, abs=1e-9)
    deviation = twin.predict(others, return_std=True)[1][:, 0]
    assert posterior.item() == pytest.approx(np.square(deviation).mean() - noise, abs=1e-9)


def test_frozen_process_predicts_as_scikit_learn_s(embedded):
    known, Y, others = embedded
    process = FrozenKernel.of(known, Y, np.ones(25), 0.8, 1.7, 0.3)
    twin = GaussianProcessRegressor(ConstantKernel(1.7) * RBF(0.8) + WhiteKernel(0.3), optimizer=None, alpha=0.0)
    mean, deviation = twin.fit(known, Y).predict(others, return_std=True)
    got = process.predict(others)
    np.testing.assert_allclose(got[0], mean, atol=1e-5)
    np.testing.assert_allclose(got[1], deviation[:, 0] ** 2, atol=1e-5)


def test_leave_one_out_is_what_leaving_out_gives(embedded):
    known, Y, _ = embedded
    mean, variance = FrozenKernel.of(known, Y, np.ones(25), 0.8, 1.7, 0.3).leave_one_out(Y)
    for i in range(25):
        rest = np.arange(25) != i
        m, v = FrozenKernel.of(known[rest], Y[rest], np.ones(24), 0.8, 1.7, 0.3).predict(known[[i]])
        np.testing.assert_allclose(mean[i], m[0], atol=1e-5)
        assert variance[i] == pytest.approx(v[0], abs=1e-5)


def test_a_row_of_weight_three_is_three_rows(embedded):
    known, Y, others = embedded
    weight = np.ones(25)
    weight[[3, 7]] = 3
    again = np.repeat(np.arange(25), weight.astype(int))
    one = FrozenKernel.of(known, Y, weight, 0.8, 1.7, 0.3).predict(others)
    copies = FrozenKernel.of(known[again], Y[again], np.ones(29), 0.8, 1.7, 0.3).predict(others)
    for a, b in zip(one, copies, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_targets_have_mean_0_and_mean_square_1():
    _, y, _ = blobs(60)
    weight = np.random.default_rng(0).random(60) + 0.1
    rows = TrainingRows(np.zeros((60, 1)), y, weight, np.arange(3))
    shares, targets = centred_targets(rows)
    lab = rows.labeled
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(weight[lab] @ targets[lab], 0, atol=1e-12)
    assert np.average(np.square(targets[lab]).mean(axis=1), weights=weight[lab]) == pytest.approx(1)
    assert not targets[y < 0].any()


QUICK = {"steps": 20, "hidden": (16, 8), "batch_size": 8, "unlabeled_batch": 16, "dropout": 0.0, "l2": 0.0, "folds": 0}


class Watched(DeepKernel):
    """Notes what its training is given: the start, the batches, and their losses."""

    def _train(self, network, rows, loss_of, rng, *, extra):
        self.network, self.kernel = network, extra
        self.start, self.batches, self.losses = copy.deepcopy(nn.ModuleList([network.module, extra])), [], []

        def noted(batch):
            self.batches.append([part.clone() for part in batch[:2]])
            loss = loss_of(batch)
            self.losses.append(loss.item())
            return loss

        return super()._train(network, rows, noted, rng, extra=extra)


def scaled(X):
    return torch.from_numpy(StandardScaler().fit_transform(X).astype(np.float32))


@pytest.mark.parametrize("alpha", [0.0, 2.5])
def test_a_step_sees_likelihood_and_variance(alpha):
    X, y, _ = blobs()
    model = Watched(alpha=alpha, random_state=0, **QUICK).fit(X, y)
    module, kernel = model.start.train()
    labeled, unlabeled = model.batches[0]
    with torch.no_grad():
        e = module["encoder"](scaled(X)[torch.cat([labeled, unlabeled])]).double().numpy()
        length, variance, noise = (value.item() for value in kernel.settings())
    targets = centred_targets(TrainingRows(X, y, np.ones(len(y)), np.arange(3)))[1][labeled]
    process = ConstantKernel(variance) * RBF(length) + WhiteKernel(noise)
    twin = GaussianProcessRegressor(process, optimizer=None, alpha=0.0).fit(e[:8], targets)
    spread = np.square(twin.predict(e[8:], return_std=True)[1][:, 0]).mean() - noise
    by_hand = -twin.log_marginal_likelihood_value_ / targets.size + alpha * spread
    assert model.losses[0] == pytest.approx(by_hand, abs=1e-5)


def test_without_alpha_it_is_supervised_deep_kernel_learning():
    """A loop of its own, with torch's multivariate normal, ends at the same network and kernel."""
    X, y, _ = blobs()
    model = Watched(alpha=0.0, random_state=0, **QUICK).fit(X, y)
    twin = model.start.train()
    module, kernel = twin
    adam = torch.optim.Adam(list(twin.parameters()), lr=1e-3)
    targets = torch.from_numpy(centred_targets(TrainingRows(X, y, np.ones(len(y)), np.arange(3)))[1])
    rows = scaled(X)
    for labeled, unlabeled in model.batches:
        e = module["encoder"](rows[torch.cat([labeled, unlabeled])])[: len(labeled)].double()
        length, variance, noise = kernel.settings()
        distance = (e[:, None] - e).square().sum(-1) / length**2
        covariance = variance * (-0.5 * distance).exp() + noise * torch.eye(len(e), dtype=torch.float64)
        normal = torch.distributions.MultivariateNormal(torch.zeros(len(e), dtype=torch.float64), covariance)
        adam.zero_grad()
        (-normal.log_prob(targets[labeled].T).sum() / (3 * len(e))).backward()
        adam.step()
    for name, value in module.state_dict().items():
        np.testing.assert_allclose(model.network_weights_[name], value.numpy(), atol=1e-4, err_msg=name)
    assert model.length_ == pytest.approx(kernel.settings()[0].item(), abs=1e-4)


def test_probabilities_are_the_softmax_of_means_over_deviations(tmp_path):
    X, y, truth = blobs()
    model = DeepKernel(**{**QUICK, "steps": 60, "learning_rate": 0.02, "folds": 2}, random_state=0).fit(X, y)
    assert (model.transduction_ == truth).mean() > 0.8
    saved = dict(model.network_weights_)
    layers = [saved[f"encoder.{i}.weight"] for i in (0, 4)], [saved[f"encoder.{i}.bias"] for i in (0, 4)]
    h = np.tanh(scaled(X).numpy() @ layers[0][0].T + layers[1][0])
    h = (h - saved["encoder.2.running_mean"]) / np.sqrt(saved["encoder.2.running_var"] + 1e-5)
    e = np.tanh((h * saved["encoder.2.weight"] + saved["encoder.2.bias"]) @ layers[0][1].T + layers[1][1])
    lab = y >= 0
    shares, targets = centred_targets(TrainingRows(X, y, np.ones(len(y)), np.arange(3)))
    process = ConstantKernel(model.variance_) * RBF(model.length_) + WhiteKernel(model.noise_)
    twin = GaussianProcessRegressor(process, optimizer=None, alpha=0.0).fit(e[lab], targets[lab])
    mean, deviation = twin.predict(e, return_std=True)
    by_hand = softmax(model.slope_ * mean / deviation + np.log(shares), axis=1)
    np.testing.assert_allclose(model.predict_proba(X), by_hand, atol=1e-3)
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").slope_ == model.slope_


def test_predictions_rest_on_a_limited_number_of_labels():
    X, y, _ = blobs(150, 30)
    model = DeepKernel(**QUICK, max_labeled=20, random_state=0).fit(X, y)
    few = DeepKernel(**QUICK, random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (150, 3)
    assert (model.predict_proba(X) != few.predict_proba(X)).any()


def test_rounds_are_limited():
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(np.arange(60) < 20, np.arange(60) % 2, -1)
    assert NullCategoryGP(max_iter=2, random_state=0).fit(X, y).n_iter_ <= 2

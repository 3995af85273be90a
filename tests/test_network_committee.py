"""Several networks that predict together, and noise on the features."""

import numpy as np
import pytest

from deepsep import DeepSep, load, save
from deepsep.errors import InterruptWarning
from deepsep.networks import NumpyNetwork, TorchNetwork
from deepsep.networks.network_committee import NetworkCommittee, member_states, members_of

D, C = 5, 3
PHASE = {"loss": "kl", "epochs": 3, "lr": 1e-2, "batch_size": 16}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((60, D), dtype=np.float32), rng.dirichlet(np.ones(C), 60).astype(np.float32)


def networks(n, seed=0):
    rng = np.random.default_rng(seed)
    return [NumpyNetwork(D, C, hidden=(8, 4), rng=rng) for _ in range(n)]


def test_members_are_trained_as_they_would_be_alone(rows):
    X, targets = rows
    committee, alone = NetworkCommittee(networks(3)), networks(3)
    losses = committee.train(X, targets, rng=np.random.default_rng(7), **PHASE)
    rng = np.random.default_rng(7)
    each = [network.train(X, targets, rng=rng, **PHASE) for network in alone]
    np.testing.assert_allclose(losses, np.mean(each, axis=0))
    np.testing.assert_array_equal(committee.embed(X), np.hstack([network.embed(X) for network in alone]))
    mean = np.mean([network.predict_proba(X) for network in alone], axis=0)
    np.testing.assert_allclose(committee.predict_proba(X), mean, rtol=1e-6)
    assert (alone[0].embed(X) != alone[1].embed(X)).any()
    assert members_of(committee) == committee.members
    assert members_of(alone[0]) == (alone[0],)


def test_state_comes_back_member_by_member(rows):
    X, targets = rows
    # As text, "10/" sorts before "2/".
    committee, other = NetworkCommittee(networks(11)), NetworkCommittee(networks(11, seed=1))
    committee.train(X, targets, rng=np.random.default_rng(0), **PHASE)
    other.load_state(committee.state())
    np.testing.assert_array_equal(other.embed(X), committee.embed(X))
    states = member_states(committee.state())
    assert len(states) == 11
    np.testing.assert_array_equal(states[10]["head.weight"], committee.members[10].state()["head.weight"])
    single = networks(1)[0].state()
    assert member_states(single) == [single]


@pytest.mark.parametrize("kind", [NumpyNetwork, TorchNetwork])
def test_noise_is_normal_and_drawn_anew(kind, rows):
    """With hardly any learning, the loss of an epoch is that of the same network on rows with noise from elsewhere."""
    X, targets = rows
    fixed = {"loss": "kl", "lr": 1e-12, "batch_size": 60}
    rng = np.random.default_rng(3)
    epochs, deviation = 300, 0.7
    quiet = kind(D, C, dropout=0.0, rng=np.random.default_rng(1))
    quiet.train(X, targets, loss="kl", epochs=100, lr=1e-2, batch_size=60, rng=rng)  # until noise would hurt it
    own = kind(D, C, dropout=0.0, noise=deviation, rng=rng)
    own.load_state(quiet.state())
    losses = own.train(X, targets, epochs=epochs, rng=rng, **fixed)
    given = [
        quiet.train(
            X + np.float32(deviation) * rng.standard_normal(X.shape, dtype=np.float32),
            targets,
            epochs=1,
            rng=rng,
            **fixed,
        )[0]
        for _ in range(epochs)
    ]
    clean = quiet.train(X, targets, epochs=1, rng=rng, **fixed)[0]
    error = np.hypot(np.std(losses), np.std(given)) / np.sqrt(epochs)
    assert abs(np.mean(losses) - np.mean(given)) < 4 * error
    assert abs(np.mean(given) - clean) > 8 * error  # the test can tell
    assert np.std(losses) == pytest.approx(np.std(given), rel=0.25)
    assert len(set(losses)) > epochs / 2
    np.testing.assert_array_equal(own.predict_proba(X), own.predict_proba(X))  # none where it predicts


def test_noise_follows_the_seed_and_leaves_the_dropout_alone(rows):
    X, targets = rows

    def trained(noise, seed):
        network = NumpyNetwork(D, C, noise=noise, rng=np.random.default_rng(0))
        network.train(X, targets, rng=np.random.default_rng(seed), **PHASE)
        return network.predict_proba(X)

    np.testing.assert_array_equal(trained(0.5, 1), trained(0.5, 1))
    assert (trained(0.5, 1) != trained(0.5, 2)).any()
    np.testing.assert_allclose(trained(1e-9, 1), trained(0.0, 1), atol=1e-6)


@pytest.fixture
def blobs():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 150)
    X = rng.normal(size=(150, D)) + 2 * np.eye(3, D)[codes]
    return X, codes, np.where(np.arange(150) < 60, codes, -1)


QUICK = {"hidden": (8, 4), "rounds": 2, "initial_epochs": 5, "propensity_epochs": 1, "label_epochs": 1}


def test_deepsep_averages_its_networks(blobs, tmp_path):
    X, _, y = blobs
    model = DeepSep(n_networks=3, random_state=0, **QUICK).fit(X, y)
    rounds = [model.round_proba(X, t) for t in range(3)]
    weights = np.array([0.8, 1.0]) / 1.8
    np.testing.assert_allclose(model.predict_proba(X), np.tensordot(weights, rounds[1:], 1), atol=1e-6)
    assert model.transform(X).shape == (150, 12)
    assert len(model.get_feature_names_out()) == 12
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.round_embedding(X, 1), model.round_embedding(X, 1))
    phases = [(row["round"], row["phase"]) for row in model.history_]
    assert len(phases) == len(set(phases))  # one row a round and phase, however many networks


@pytest.mark.parametrize("settings", [{"validation_fraction": 0.3}, {"pretrain": "autoencoder", "pretrain_epochs": 1}])
def test_every_way_of_training_takes_several_networks(settings, blobs):
    X, codes, y = blobs
    longer = QUICK | {"hidden": (32, 4), "learning_rate": 0.01, "initial_epochs": 30}
    model = DeepSep(n_networks=2, random_state=0, **(longer | settings)).fit(X, y)
    assert (model.predict(X) == codes).mean() > 0.5
    assert model.transform(X).shape == (150, 8)


def test_one_network_without_noise_is_the_papers(blobs):
    X, _, y = blobs
    published = DeepSep.as_published()
    assert (published.n_networks, published.noise) == (1, 0.0)
    model = DeepSep(n_networks=1, random_state=0, **QUICK).fit(X, y)
    assert model.transform(X).shape == (150, 4)


def test_noise_is_for_the_default_network():
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(np.arange(60) < 30, (X[:, 0] > 0).astype(int), -1)
    default, own, none = (DeepSep(noise=noise, random_state=0, **QUICK).fit(X, y) for noise in (None, 0.2, 0.0))
    np.testing.assert_array_equal(default.predict_proba(X), own.predict_proba(X))
    assert (default.predict_proba(X) != none.predict_proba(X)).any()
    torch = pytest.importorskip("torch")
    default, none = (
        DeepSep(encoder=lambda: torch.nn.Linear(3, 2), noise=noise, random_state=0, **QUICK).fit(X, y)
        for noise in (None, 0.0)
    )
    np.testing.assert_array_equal(default.predict_proba(X), none.predict_proba(X))


def test_settings_changed_after_the_fit_change_nothing(blobs, tmp_path):
    X, _, y = blobs
    model = DeepSep(n_networks=2, random_state=0, **QUICK).fit(X, y)
    p, embedding = model.predict_proba(X), model.transform(X)
    model.set_params(n_networks=5, noise=1.0)
    np.testing.assert_array_equal(model.transform(X), embedding)
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), p)


@pytest.mark.parametrize("validation_fraction", [0.0, 0.3])
def test_interrupted_members_that_were_not_trained_have_no_say(validation_fraction, blobs, monkeypatch):
    X, _, y = blobs
    train, calls = NumpyNetwork.train, []

    def stop_in_the_second(self, *args, **options):
        calls.append(self)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train(self, *args, **options)

    monkeypatch.setattr(NumpyNetwork, "train", stop_in_the_second)
    settings = QUICK | {"validation_fraction": validation_fraction, "calibrate": True}
    with pytest.warns(InterruptWarning, match="not calibrated"):
        model = DeepSep(n_networks=3, random_state=0, **settings).fit(X, y)
    assert model.transform(X).shape == (150, 8)  # the first, and the second, which had begun; not the third
    assert len(calls) == 2  # no fit of the calibration after that
    assert model.temperature_ == 1.0


@pytest.mark.parametrize(
    "bad", [{"n_networks": 0}, {"n_networks": 1.5}, {"noise": -0.1}, {"n_networks": True}, {"noise": float("nan")}]
)
def test_settings_are_checked(bad, blobs):
    X, _, y = blobs
    with pytest.raises(ValueError, match=next(iter(bad))):
        DeepSep(**QUICK, **bad).fit(X, y)

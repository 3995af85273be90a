"""The generator of synthetic tables, and the training on them."""

import json
import random

import numpy as np
import pytest
import torch

from deepsep.networks.components import principal_components
from deepsep.networks.in_context_network import MAX_CLASSES, UNLABELED, InContextNetwork, Sizes, load_network
from pretraining import pictures, train
from pretraining.difficulty import difficulty
from pretraining.evaluate import Protocol, evaluate, read_tables
from pretraining.generator import PRIORS, Batch, draw_batch, worth
from pretraining.generator.batch import FAMILIES
from pretraining.generator.dice import Dice, scaled
from pretraining.generator.gaps import gaps
from pretraining.generator.label_noise import tidy
from pretraining.generator.manifolds import manifold_table
from pretraining.generator.profiles import profile_table
from pretraining.generator.quota import draw_sample
from pretraining.generator.rules import rule_table
from pretraining.generator.series import series_table
from pretraining.muon import orthogonal


def dice(tables, seed=0):
    return Dice(tables, torch.Generator().manual_seed(seed), random.Random(seed))


def draw(tables, context, asked, columns, seed=0, **settings):
    return draw_batch(
        tables,
        context,
        asked,
        columns,
        generator=torch.Generator().manual_seed(seed),
        choices=random.Random(seed),
        **settings,
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("columns", [1, 2, 7, 40])
def test_every_family_makes_whole_tables(family, columns):
    batch = draw(5, 70, 20, columns, family=family, share_of_components=0.5)
    assert batch.values.shape == (5, 90, columns)
    assert batch.values.isfinite().all()
    assert (batch.n_classes >= 2).all()
    assert (batch.classes < batch.n_classes[:, None]).all()
    torch.testing.assert_close(batch.shares.sum(1), torch.ones(5))
    for classes, labels, n_classes in zip(batch.classes, batch.labels, batch.n_classes, strict=True):
        known = labels != UNLABELED
        assert torch.equal(labels[known], classes[:70][known])
        assert set(labels[known].tolist()) == set(range(n_classes))


@pytest.mark.parametrize("prior", PRIORS)
def test_a_prior_draws_from_its_families(prior):
    assert sum(PRIORS[prior].shares.values()) == pytest.approx(1)
    assert PRIORS[prior].shares.keys() <= FAMILIES.keys()
    for seed in range(3):
        batch = draw(9, 60, 20, 12, seed=seed, prior=prior)
        assert batch.values.shape == (9, 80, 12)
        assert batch.values.isfinite().all()


def test_rows_that_look_the_same_have_the_same_class_by_a_rule():
    table, classes = rule_table(dice(200, 1), 500, 3)
    pure, joint = [], []
    for values, each in zip(table.numpy(), classes.numpy(), strict=True):
        _, cell = np.unique(values, axis=0, return_inverse=True)
        if cell.max() > 100 or each.min() == each.max():
            continue  # a continuous column, or one class
        pure.append(purity(cell.ravel(), each))
        alone = max(purity(np.unique(column, return_inverse=True)[1], each) for column in values.T)
        joint.append(pure[-1] - alone)
    assert len(pure) > 80
    assert np.mean(np.array(pure) > 0.97) > 0.7
    assert np.mean(np.array(joint) > 0.1) > 0.4, "often no column says anything alone"


def purity(cell, classes):
    """The share of rows with the commonest class of their cell."""
    return sum(np.bincount(classes[cell == k]).max() for k in range(cell.max() + 1)) / len(classes)


def test_profiles_have_up_to_32_classes_and_often_few_rows_of_each():
    _, classes = profile_table(dice(200), 300, 5)
    n_classes = classes.amax(1) + 1
    assert n_classes.max() == MAX_CLASSES
    assert (n_classes >= 12).float().mean() > 0.3


def test_the_moments_of_a_series_follow_one_another():
    series, _ = series_table(dice(60), 100, 50)
    shuffled = series[..., torch.randperm(50, generator=torch.Generator().manual_seed(0))]
    change, at_random = (each.diff(dim=2).square().mean((1, 2)) for each in (series, shuffled))
    assert (change < 0.5 * at_random).float().mean() > 0.5


def test_weighted_draws_follow_the_weights():
    weights = torch.tensor([0.0, 3.0, 0.0, 1.0, 0.0]).expand(4, -1)
    drawn = dice(4).weighted(weights, 20_000)
    share = torch.stack([(drawn == i).float().mean() for i in range(5)])
    torch.testing.assert_close(share, torch.tensor([0, 0.75, 0, 0.25, 0]), atol=0.01, rtol=0)


def test_tables_in_which_nothing_can_be_learned_come_last():
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(60, 400, 6, generator=generator)
    by_chance = torch.randint(0, 3, (60, 400), generator=generator)
    of_column = (values[..., 0] + 0.5 * torch.randn(60, 400, generator=generator) > 0).long()
    classes = torch.where(torch.arange(60)[:, None] < 30, by_chance, of_column)
    kept = worth.keep(dice(60), values, classes, 30)
    assert (kept >= 30).float().mean() > 0.9
    evidence, _ = worth.score(dice(30), values[:30], by_chance[:30])
    assert -1 < evidence.mean() < 0.5, "no evidence where there is none"
    assert len(worth.keep(dice(60), values, by_chance, 45)) == 45, "there are always enough"


def test_the_same_seed_gives_the_same_tables():
    first, second = draw(6, 40, 10, 8, seed=3), draw(6, 40, 10, 8, seed=3)
    assert torch.equal(first.values, second.values)
    assert torch.equal(first.labels, second.labels)
    assert not torch.equal(first.values, draw(6, 40, 10, 8, seed=4).values)


def test_an_index_never_reaches_its_bound():
    almost_one = torch.tensor([1 - 2**-24, 1.0])
    for bound in (3, 100, 2**20):
        assert scaled(almost_one, bound).max() == bound - 1
        assert scaled(almost_one, torch.tensor(bound)).max() == bound - 1


def test_quotas_give_every_class_the_same_number_of_labels():
    tables, rows = 200, 400
    classes = (torch.rand(tables, rows, generator=torch.Generator().manual_seed(0)) > 0.8).long()
    n_classes = torch.full((tables,), 2)
    sample = draw_sample(dice(tables), classes, n_classes, context=60, asked=20)
    of_context = classes.gather(1, sample.order)[:, :60]
    in_class = (of_context * sample.labeled).sum(1)
    balanced = (in_class - sample.labeled.sum(1) / 2).abs() <= 0.5
    assert 0.5 < balanced.float().mean() < 0.8
    assert (sample.order.sort(1).values.diff(dim=1) > 0).all(), "a row was drawn twice"
    assert sample.shares[:, 1].mean() == pytest.approx(0.2, abs=0.03)


def test_some_tables_have_no_unlabeled_rows_in_the_context():
    batch = draw(400, 40, 8, 3, family="clusters")
    unlabeled = (batch.labels == UNLABELED).sum(1)
    assert 0 < (unlabeled == 0).float().mean() < 0.3
    assert unlabeled.max() >= 10


def test_rare_classes_join_the_largest_and_one_class_alone_is_split():
    classes = torch.zeros(2, 300, dtype=torch.long)
    classes[0, :100], classes[0, 100] = 5, 9
    tidied, n_classes = tidy(dice(2), classes, torch.randn(2, 300, 4))
    assert n_classes.tolist() == [2, 2]
    assert [len(row.unique()) for row in tidied] == [2, 2]


def test_gaps_come_in_some_tables_only():
    missing = gaps(dice(300), torch.randn(300, 50, 6)).float().mean((1, 2))
    assert 0.3 < (missing == 0).float().mean() < 0.9
    assert missing.max() > 0.05


def test_gaps_lie_between_classes_that_are_curves():
    points, classes = manifold_table(dice(40), 400, 2)
    nearest = (torch.cdist(points, points) + torch.diag(torch.full((400,), torch.inf))).argmin(2)
    right = (classes.gather(1, nearest) == classes).float().mean(1)
    assert right.median() > 0.9


def test_every_mechanism_has_a_picture(tmp_path):
    pictures.mechanisms(tmp_path / "generator.png")
    pictures.tables_seen(tmp_path / "tables-seen.png")
    assert all(path.stat().st_size > 10_000 for path in tmp_path.iterdir())
    seen = [point["seen"] for point in pictures.evaluations()]
    assert len(seen) >= 4
    assert seen == sorted(seen)


def test_components_are_uncorrelated_and_ordered():
    values = torch.randn(2, 120, 6) @ torch.randn(6, 6)
    components, spectrum = principal_components(values, 100, 4)
    assert components.shape == (2, 120, 4)
    context = components[:, :100]
    covariance = context.transpose(1, 2) @ context / 100
    torch.testing.assert_close(covariance, torch.diag_embed(covariance.diagonal(dim1=1, dim2=2)), rtol=0, atol=1e-3)
    assert (spectrum.diff(dim=1) <= 0).all()
    assert (spectrum[:, 0] == 0).all()


def test_tables_can_be_learned():
    result = difficulty(None, tables=15, labels=300, columns=10, seed=0, trees=20, asked=200)
    assert np.mean(result.relative_gain > 0.02) > 0.6
    assert 0.1 < np.median(result.relative_gain) < 0.95


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_most_tables_of_a_family_can_be_learned_from_1000_labels(family):
    result = difficulty(family, tables=40, labels=1000, columns=20, seed=1)
    assert np.mean(result.relative_gain > 0.02) > 0.6


def test_muon_makes_matrices_orthogonal():
    for shape in ((3, 32, 64), (2, 64, 32)):
        size = torch.linalg.svdvals(orthogonal(torch.randn(*shape)))
        assert size.min() > 0.5
        assert size.max() < 1.4


def test_muon_is_close_to_the_same_steps_in_double_precision():
    matrices = torch.randn(3, 64, 128, generator=torch.Generator().manual_seed(0))
    x = matrices.double()
    x = x / x.norm(dim=(1, 2), keepdim=True)
    for _ in range(5):
        gram = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    assert (orthogonal(matrices) - x).norm() < 0.025 * x.norm()


def test_the_learning_rate_warms_up_stays_and_falls():
    rates = [train.learning_rate(1.0, *at, 0.7) for at in ((0, 0.0), (1000, 0.3), (1000, 0.7), (1000, 0.85), (1000, 1))]
    assert rates == pytest.approx([1 / train.WARM_UP_STEPS, 1, 1, 0.5, 0])


def two_blobs(tables, generator):
    """Tables of two classes, where each column says the class; which end is which differs between tables."""
    classes = torch.randint(0, 2, (tables, 32), generator=generator)
    sign = 2 * torch.randint(0, 2, (tables, 1, 2), generator=generator) - 1
    values = (2 * classes[..., None] - 1) * sign + 0.5 * torch.randn(tables, 32, 2, generator=generator)
    labels = torch.where(torch.arange(24) < 12, classes[:, :24], UNLABELED)
    share = classes.float().mean(1)
    shares = torch.zeros(tables, MAX_CLASSES)
    shares[:, 0], shares[:, 1] = 1 - share, share
    return Batch(values, classes, labels, torch.full((tables,), 2), shares, None)


def test_a_tiny_network_learns_to_beat_the_majority_class(monkeypatch):
    monkeypatch.setattr(train, "WARM_UP_STEPS", 20)
    monkeypatch.setattr(train, "TINY_SIZES", Sizes(16, 2, 4, 1, 1, 2, 2, 2))
    trainer = train.Trainer(train.parse(["--tiny", "--seed", "1"]))
    generator = torch.Generator().manual_seed(0)
    accuracy = []
    for step in range(220):
        accuracy.append(trainer.backward(two_blobs(32, generator)).accuracy.item())
        torch.nn.utils.clip_grad_norm_(trainer.parameters, 1.0)
        trainer.step(train.learning_rate(4e-3, step, 0.0, 1.0))
    assert np.mean(accuracy[:20]) < 0.6, "it cannot know the answers before it has learned"
    assert np.mean(accuracy[-20:]) > 0.85


def test_a_run_can_be_continued_and_is_logged(tmp_path):
    tables = tmp_path / "tables"
    tables.mkdir()
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, 300)
    np.savez(tables / "blobs.npz", values=rng.normal(size=(300, 5)) + classes[:, None], classes=classes)
    first, second = tmp_path / "first", tmp_path / "second"
    common = ["--tiny", "--tables", str(tables)]
    train.main([*common, "--minutes", "0.05", "--out", str(first)])
    _, seen = load_network(first / "average.safetensors")
    assert seen > 0
    names = ["average.safetensors", "checkpoint", "log.jsonl", "weights.safetensors"]
    assert sorted(path.name for path in first.iterdir()) == names
    events = [json.loads(line)["event"] for line in (first / "log.jsonl").read_text().splitlines()]
    assert events[0] == "start"
    assert events[-1] == "evaluation"
    train.main([*common, "--minutes", "0.05", "--start", str(first), "--out", str(second), "--optimizer", "muon"])
    assert load_network(second / "weights.safetensors")[1] > seen


def test_a_gradient_that_is_not_finite_is_skipped(tmp_path, monkeypatch):
    def broken(self, batch):
        for parameter in self.parameters:
            parameter.grad = torch.full_like(parameter, torch.nan)
        return train.Loss(*[torch.tensor(0.0)] * len(train.Loss._fields))

    monkeypatch.setattr(train.Trainer, "backward", broken)
    train.main(["--tiny", "--minutes", "0.05", "--out", str(tmp_path)])
    network, seen = load_network(tmp_path / "weights.safetensors")
    assert seen == 0
    assert all(parameter.isfinite().all() for parameter in network.parameters())


def test_evaluation_measures_both_views_and_their_average(tmp_path):
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 2, 200)
    np.savez(tmp_path / "a.npz", values=rng.normal(size=(200, 4)), classes=classes)
    torch.manual_seed(0)
    network = InContextNetwork(train.TINY_SIZES)
    scores = evaluate(network, read_tables(tmp_path), Protocol(labels=(10,), unlabeled=20, members=1), "cpu")
    assert [view for _, view, _ in scores] == ["columns", "components", "both"]
    assert all(0 <= score.accuracy <= 100 and score.log_loss > 0 for score in scores.values())

"""Fixtures that several test modules share."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run
from hypothesis import settings

from deepsep import networks

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")

# Checks of scikit-learn that repeat another one, with the same rows in another wrapping.
REPEATED = ("-check_estimator_sparse_matrix]", "(readonly_memmap=True)]", "(readonly_memmap=True,X_dtype=float32)]")


CLUSTERS = {"ray", "head", "spark"}  # fixtures that start one


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Leave repeated checks to the slow tests, and those with a cluster to the tests with other programs."""
    for item in items:
        if item.name.endswith(REPEATED):
            item.add_marker("slow")
        if CLUSTERS.intersection(getattr(item, "fixturenames", ())):  # a doctest has none
            item.add_marker("infra")


@pytest.fixture(scope="session", autouse=True)
def random_in_context_network() -> Iterator[None]:
    """Give every in-context classifier a tiny network of random weights."""

    def random_network(device: str) -> object:
        from in_context import random_network  # imports torch

        return random_network(device)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vars(networks), "pretrained_network", random_network)
        yield


@pytest.fixture
def shipped_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give in-context classifiers the network of the package, for tests of how well it predicts."""
    from deepsep.networks.pretrained import pretrained_network

    monkeypatch.setitem(vars(networks), "pretrained_network", pretrained_network)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A CSV file whose classes show in its features; 30 of its 200 rows are labelled."""
    rng = np.random.default_rng(0)
    k = rng.integers(0, 3, 200)
    frame = pd.DataFrame(
        {
            "customer": [f"c{i:03d}" for i in range(200)],
            "age": 25 + 20 * k + rng.normal(0, 4, 200).round(1),
            "plan": np.array(["free", "basic", "pro"])[np.where(rng.random(200) < 0.2, 0, k)],
            "weight": rng.uniform(0.5, 2, 200).round(2),
            "segment": np.where(np.arange(200) < 30, np.array(["gold", "blue", "grey"])[k], None),
        }
    )
    file = tmp_path / "people.csv"
    frame.to_csv(file, index=False)
    return file


@pytest.fixture
def model(people: Path) -> Path:
    """The folder of a model fitted to ``people``, next to it."""
    folder = people.parent / "model"
    options = ("--label", "segment", "--id", "customer", "--method", "tsvm", "--no-report")
    assert run("fit", people, *options, "-o", folder).exit_code == 0
    return folder


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    """A CSV file with the answers of 150 of 400 people of two types; everyone.csv next to it has all profiles."""
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 2, 400)
    drinks = np.where(kind, "tea; milk", "coffee")
    up = np.where(rng.random(400) < 0.1, "late", np.where(kind, "early", "late"))
    who = [f"{i:04d}" for i in range(400)]
    profile = pd.DataFrame(
        {"who": who, "age": 30 + 25 * kind + rng.normal(0, 5, 400), "visits": rng.poisson(3 + 6 * kind)}
    )
    profile.to_csv(tmp_path / "everyone.csv", index=False)
    survey = pd.DataFrame({"who": who, "Drinks": drinks, "Gets up": up, "Sport": rng.integers(1, 6, 400)})[:150]
    survey.to_csv(tmp_path / "answers.csv", index=False)
    return tmp_path / "answers.csv"

"""The command line as tests call it, and tables to try it on."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from deepsep.cli import app

SHORT = ("--set", "rounds=1", "--set", "initial_epochs=5")


def run(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def deepsep_process(*arguments: object, **settings) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deepsep", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


def write_people(folder: Path) -> Path:
    """A table whose classes show in its features; 30 of 200 rows are labelled."""
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
    file = folder / "people.csv"
    frame.to_csv(file, index=False)
    return file


def fit_model(people: Path) -> Path:
    """A model of that table, beside it."""
    folder = people.parent / "model"
    options = ("--label", "segment", "--id", "customer", "--method", "tsvm", "--no-report")
    assert run("fit", people, *options, "-o", folder).exit_code == 0
    return folder


def write_answers(folder: Path) -> Path:
    """What 150 of 400 people said, whose habits follow two types; and a profile of all of them."""
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 2, 400)
    drinks = np.where(kind, "tea; milk", "coffee")
    up = np.where(rng.random(400) < 0.1, "late", np.where(kind, "early", "late"))
    who = [f"{i:04d}" for i in range(400)]
    profile = pd.DataFrame(
        {"who": who, "age": 30 + 25 * kind + rng.normal(0, 5, 400), "visits": rng.poisson(3 + 6 * kind)}
    )
    profile.to_csv(folder / "everyone.csv", index=False)
    survey = pd.DataFrame({"who": who, "Drinks": drinks, "Gets up": up, "Sport": rng.integers(1, 6, 400)})[:150]
    survey.to_csv(folder / "answers.csv", index=False)
    return folder / "answers.csv"

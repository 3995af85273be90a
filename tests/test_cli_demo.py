"""``deepsep demo``."""

import json
from pathlib import Path

import pandas as pd
import pytest
from command_line import run

from deepsep import demo_example

RECORDED = Path(__file__).parents[1] / "benchmarks" / "results" / "demo.json"  # what the tutorial quotes


@pytest.mark.slow
def test_demo_leaves_files_with_which_it_can_be_replayed(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    result = run("demo", "-o", folder, "--no-open")
    assert result.exit_code == 0, result.output
    assert "random forest" in result.stdout
    assert str(folder / "model" / "report.html") in result.stdout
    accuracy = json.loads((folder / "demo.json").read_text(encoding="utf-8"))["accuracy"]
    assert accuracy == pytest.approx(json.loads(RECORDED.read_text(encoding="utf-8"))["accuracy"], abs=0.03)
    first = pd.read_parquet(folder / "model" / "predictions.parquet")
    again = tmp_path / "again"
    options = ("--labels", folder / "sorted.csv", "--on", "food", "--no-report")
    assert run("fit", folder / "foods.parquet", *options, "-o", again).exit_code == 0
    pd.testing.assert_frame_equal(pd.read_parquet(again / "predictions.parquet"), first)
    scored = tmp_path / "scored.parquet"
    assert run("score", again, folder / "newcomers.parquet", "--id", "food", "-o", scored).exit_code == 0
    pd.testing.assert_frame_equal(pd.read_parquet(scored), pd.read_parquet(folder / "scored.parquet"))


def test_demo_hides_all_but_a_few_aisles(tmp_path: Path) -> None:
    story = demo_example.write_files(tmp_path)
    foods, newcomers = (pd.read_parquet(tmp_path / name) for name in ("foods.parquet", "newcomers.parquet"))
    known = pd.read_csv(tmp_path / "sorted.csv").set_index("food")["aisle"]
    assert (len(foods), len(known), len(newcomers)) == (2_000, 100, 500)
    assert set(known.index) < set(foods["food"])
    assert set(foods["food"]).isdisjoint(newcomers["food"])
    assert "aisle" not in {*foods, *newcomers}
    pd.testing.assert_series_equal(known, story.aisle[known.index], check_dtype=False)
    assert set(known) == set(story.aisle)


def test_demo_does_not_overwrite_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    result = run("demo", "-o", tmp_path)
    assert result.exit_code == 2
    assert "did not write" in result.stderr

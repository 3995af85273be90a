"""``deepsep explain``."""

import json
from pathlib import Path

import pandas as pd
from command_line import run


def test_explain_names_the_columns_that_drive_the_classes(people: Path, model: Path) -> None:
    result = run("explain", model, people, "--label", "segment", "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert {line["column"] for line in content["importance"]["columns"] if line["clear"]} == {"age", "plan"}
    again = run("explain", model, people, "--json")  # the model remembers its column of labels
    assert json.loads(again.stdout) == content


def test_explain_refuses_labels_of_other_classes(people: Path, model: Path) -> None:
    frame = pd.read_csv(people)
    frame["segment"] = frame["segment"].replace("grey", "green")
    frame.to_csv(people, index=False)
    result = run("explain", model, people, "--label", "segment")
    assert result.exit_code == 2
    assert "the model's classes are ['blue', 'gold', 'grey']" in result.stderr

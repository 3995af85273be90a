"""``deepsep check``."""

import json
from pathlib import Path

import pandas as pd
from command_line import run


def test_check_says_what_would_go_wrong(people: Path) -> None:
    frame = pd.read_csv(people)
    frame["copy"] = ((frame["age"] - 25) / 20).round()
    frame.to_csv(people, index=False)
    result = run("check", people, "--label", "segment", "--id", "customer")
    assert result.exit_code == 0, result.output
    assert "200 rows, 30 of them labelled" in result.stdout
    assert "column 'copy' alone gives the label away" in " ".join(result.stdout.split())
    assert result.stdout.rstrip().endswith("A fit would work.")


def test_check_exits_2_where_a_fit_would_fail(people: Path) -> None:
    frame = pd.read_csv(people)
    frame["segment"] = frame["segment"].where(frame["segment"] == "gold")
    frame.to_csv(people, index=False)
    result = run("check", people, "--label", "segment", "--json")
    assert result.exit_code == 2
    content = json.loads(result.stdout)
    assert content["fit_would_work"] is False
    assert content["findings"][0]["code"] == "one-class"
    assert run("fit", people, "--label", "segment", "-o", people.parent / "m").exit_code == 2

"""Commands that commands print for the next step: each is run, with the options that its table needs."""

import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import run
from hypothesis import given
from hypothesis import strategies as st

from deepsep.cli.printed_commands import fit_command, option_words, reading_options
from deepsep.table import Reading

QUICK = ("--method", "tsvm", "--no-report")


@pytest.fixture(params=["csv", "xlsx"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[str]]:
    """A table with a title above its header, codes that look like numbers, and a name that needs quotes."""
    rng, n = np.random.default_rng(0), 200
    age, plan = rng.normal(45, 15, n).round(1), rng.choice([10, 20, 30], n)
    segment = np.where(age + plan > 65, "gold", "blue").astype(object)
    segment[60:] = None
    weight = rng.uniform(0.5, 2, n).round(2)
    frame = pd.DataFrame({"customer": [f"c{i}" for i in range(n)], "age": age, "plan": plan, "notes": rng.random(n)})
    frame = frame.assign(weight=weight, segment=segment)
    monkeypatch.chdir(tmp_path)
    place = Path(f"our people.{request.param}")
    if request.param == "csv":
        place.write_text("Customers\n\n" + frame.to_csv(index=False, sep="|"))
        reading = ["--skip-rows", "2", "--delimiter", "|"]
    else:
        with pd.ExcelWriter(place) as writer:
            pd.DataFrame({"about": ["nothing"]}).to_excel(writer, sheet_name="About", index=False)
            frame.to_excel(writer, sheet_name="People", startrow=2, index=False)
        reading = ["--skip-rows", "2", "--sheet", "People"]
    columns = ["--label", "segment", "--id", "customer", "--drop", "notes", "--text", "plan", "--weight", "weight"]
    return place, [*columns, *reading]


def printed(output: str) -> list[str]:
    """Return the words of the last command that was printed."""
    *_, last = re.findall(r"^.*?\b(deepsep (?:fit|score) .*)$", output, re.M)
    return shlex.split(last)[1:]


def done(*words: Any) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def test_every_step_leads_to_the_next(table: tuple[Path, list[str]]) -> None:
    place, options = table
    scoring = printed(done("fit", place, *options, *QUICK, "-o", "model"))
    done(*[str(place) if word == f"MORE_ROWS{place.suffix}" else word for word in scoring])
    scored = pd.read_csv("scored.csv") if place.suffix == ".csv" else pd.read_excel("scored.xlsx")
    assert scored["customer"].tolist() == [f"c{i}" for i in range(200)]
    again = printed(done("next", "model", place, "-n", "6", "-o", "to label.csv"))
    assert again[again.index("--drop") + 1] == "notes"
    filled = pd.read_csv("to label.csv", encoding="utf-8-sig").assign(segment="gold")
    assert list(filled["customer"].str[0].unique()) == ["c"]
    filled.to_csv("to label.csv", index=False)
    assert "66 of them labelled" in done(*again, *QUICK)
    again = printed(done("compare", place, *options, "--methods", "tsvm,knn", "--folds", "2"))
    done(*again, "--no-report")


@given(
    skip=st.integers(0, 9),
    sheet=st.none() | st.text("abc é'\"$", min_size=1).filter(str.strip),
    dayfirst=st.sampled_from([None, True, False]),
    delimiter=st.sampled_from([None, "|", ";", "\t"]),
)
def test_a_printed_reading_is_parsed_as_the_same(
    skip: int, sheet: str | None, dayfirst: bool | None, delimiter: str | None
) -> None:
    reading = Reading(skip_rows=skip, sheet=sheet or 0, dayfirst=dayfirst, delimiter=delimiter)
    words = shlex.split(fit_command(["t.csv"], {"--label": "y"}, reading))
    assert words == ["deepsep", "fit", "t.csv", "--label", "y", *option_words(reading_options(reading)), "-o", "model"]
    pairs = dict(pairwise(words))
    assert pairs.get("--skip-rows", "0") == str(skip)
    assert pairs.get("--sheet") == sheet
    assert pairs.get("--delimiter") == delimiter
    assert ("--dayfirst" in words, "--monthfirst" in words) == (dayfirst is True, dayfirst is False)

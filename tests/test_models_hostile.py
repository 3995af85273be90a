"""Hostile models, with hashes that fit: compiled code never gets to see them, and nothing unpacks without end.

Each case changes one thing in a saved model. It must be refused as it is opened; a change that gets through would
crash the process, hang it, fill the memory or predict NaN.
"""

import gzip
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from deepsep import TSVM, Committee, DeepSep, for_table, method
from deepsep.classifiers import Supervised
from deepsep.errors import DeepSepError, ModelFileError
from deepsep.files import packed
from deepsep.files.manifest import canonical, sha256
from deepsep.models import load, save
from deepsep.scoring import compare_with_training, remember_training

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3)) + np.repeat([[0, 0, 0], [4, 0, 0], [0, 4, 0]], 50, 0)
Y = np.where(np.arange(150) % 50 < 8, np.repeat(["a", "b", "c"], 50), None)
FRAME = pd.DataFrame(X, columns=list("xyz")).assign(
    town=RNG.choice(["Oslo", "Rome", "Bern"], 150),
    street=[f"street {i}" for i in RNG.integers(0, 60, 150)],  # so many that the rarest share a column
    note=[f"on {a} and {b} of {c}" for a, b, c in RNG.integers(0, 999, (150, 3))],
)


def make(kind):
    if kind == "table":
        return for_table(Supervised(LogisticRegression())).fit(FRAME, Y)
    if kind == "profile":
        model = for_table(Supervised(LogisticRegression())).fit(FRAME, Y)
        remember_training(model, FRAME, Y)
        return model
    if kind == "splines":
        return make_pipeline(SplineTransformer(), TSVM()).fit(X, Y)
    if kind == "nested":
        return make_pipeline(make_pipeline(StandardScaler()), TSVM()).fit(X, Y)
    if kind == "committee":
        members = ["logistic-regression", "tsvm"]
        return Committee(members=members, effort="fast", n_jobs=1, random_state=0).fit(X, Y)
    if kind == "deepsep":
        return DeepSep(rounds=1, initial_epochs=2, n_networks=1, random_state=0).fit(X, Y)
    if kind in ("lightgbm", "xgboost"):
        pytest.importorskip(kind)
    few = {"n_estimators": 4} if kind in ("lightgbm", "xgboost", "random-forest") else {}
    few |= {"min_child_samples": 3} if kind == "lightgbm" else {"steps": 5} if kind == "mean-teacher" else {}
    return method(kind, random_state=0, **few).fit(X, Y)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    return tmp_path_factory.mktemp("originals")


@pytest.fixture
def saved(originals, tmp_path):
    """Return a function that gives a copy of a saved model."""

    def copy_of(kind):
        if not (originals / kind).exists():
            save(make(kind), originals / kind)
        return Path(shutil.copytree(originals / kind, tmp_path / "model"))

    return copy_of


def write(place, name, content, manifest=None):
    """Write a file of a model, and hashes that fit."""
    manifest = manifest or json.loads((place / "manifest.json").read_bytes())
    (place / name).write_bytes(content)
    manifest["files"][name] = {"size": len(content), "sha256": sha256(content)}
    manifest.pop("sha256")
    manifest["sha256"] = sha256(canonical(manifest))
    (place / "manifest.json").write_bytes(canonical(manifest))


def part_of(place):
    """Return the name of the compressed part that holds a classifier, or the table encoder."""
    manifest = json.loads((place / "manifest.json").read_bytes())
    parts = [name for name in manifest["files"] if name.startswith("parts/")]
    steps = [name for name in ("steps/1.gz", "steps/0.gz") if name in manifest["files"]]
    return (steps or parts)[0]


def change_part(place, change):
    """Edit the values and arrays of a compressed part, which goes on fitting in all other respects."""
    name = part_of(place)
    values, arrays = packed.unpack_file(name, (place / name).read_bytes())
    changed = change(values, arrays)
    write(place, name, packed.pack_file(values if changed is None else changed, arrays))


def refuse(place, words=None):
    with pytest.raises(ModelFileError, match=words):
        load(place)


def the_array(arrays, name):
    """Return the full name of an array."""
    (key,) = (key for key in arrays if name in (key, key.partition(".")[2]))
    return key


def put(name, at, value):
    """Return an edit that sets numbers of an array."""

    def change(values, arrays):
        key = the_array(arrays, name)
        arrays[key] = arrays[key].copy()
        arrays[key][at] = value

    return change


def cut(name):
    """Return an edit that halves an array."""

    def change(values, arrays):
        key = the_array(arrays, name)
        arrays[key] = arrays[key][: len(arrays[key]) // 2].copy()

    return change


def replace(name, make_array):
    """Return an edit that replaces an array."""

    def change(values, arrays):
        key = the_array(arrays, name)
        arrays[key] = make_array(arrays[key])

    return change


def state(**changes):
    """Return an edit of the plain values of a classifier."""

    def change(values, arrays):
        values[0]["state"].update(changes)

    return change


def setting(**changes):
    """Return an edit of the settings of a classifier."""

    def change(values, arrays):
        values[0]["classifier"]["settings"].update(changes)

    return change


HOSTILE = {
    "lightgbm": [
        put("left_child", 0, 99),
        put("right_child", 0, -99),
        put("left_child", 0, 0),
        put("left_child", slice(None), 1),
        put("split_feature", 0, 3),
        put("split_feature", 0, -1),
        put("num_leaves", 0, 30),
        put("num_leaves", 0, 0),
        put("num_leaves", 0, -(2**40)),
        put("decision_type", 0, 1),
        put("decision_type", 0, 12),
        cut("leaf_value"),
        cut("threshold"),
        cut("shrinkage"),
        put("leaf_value", 0, np.nan),
        put("threshold", 0, np.inf),
        replace("num_leaves", lambda leaves: leaves[:-1]),
        state(objective="regression"),
        state(objective="binary"),
        state(objective="multiclass num_class:99"),
        state(objective="multiclassova", sigmoid=-1.0),
        setting(unheard_of={"a": [1]}),
    ],
    "xgboost": [
        put("left_children", 0, 9999),
        put("right_children", 0, 0),
        put("right_children", 0, -7),
        put("split_indices", 0, 77),
        put("size", 0, 10**9),
        put("size", 0, -1),
        cut("split_conditions"),
        put("split_conditions", 0, np.nan),
        put("base_weights", 0, np.inf),
        state(objective="reg:squarederror"),
        state(objective="binary:logistic"),
        state(base_score=[]),
        state(base_score=[-1.0, 2.0]),
        state(parallel=0),
        state(parallel=2**40),
        state(best_iteration="99"),
        state(version=[0, 0, 0]),
        state(version="3.2"),
    ],
    "svm": [
        put("_n_support", 0, 1000),
        put("_n_support", slice(0, 2), [-5, 21]),
        cut("support_"),
        put("support_", 0, 10**6),
        put("support_", 0, -1),
        cut("_dual_coef_"),
        cut("dual_coef_"),
        replace("support_vectors_", lambda rows: rows[:, :2].copy()),
        replace("support_vectors_", lambda rows: rows.astype(np.int64)),
        replace("_intercept_", lambda b: b[:1].copy()),
        put("support_vectors_", 0, np.nan),
        put("_dual_coef_", 0, np.inf),
        state(gamma=-1.0),
        state(rows=0),
        setting(kernel="precomputed"),
        setting(kernel="unheard of"),
        setting(kernel=3),
    ],
    "knn": [
        put("codes", 0, 7),
        put("codes", 0, -1),
        put("codes", slice(None), 0),
        cut("codes"),
        replace("rows", lambda rows: rows[:, :2].copy()),
        put("rows", 0, np.nan),
        setting(metric="precomputed"),
        setting(metric="unheard of"),
        setting(n_neighbors=-3),
    ],
    "random-forest": [
        put("left_child", 0, 10_000),
        put("right_child", 0, -7),
        put("left_child", 0, 0),
        put("right_child", -1, 1),
        put("feature", 0, 99),
        put("feature", 0, -2),
        put("size", 0, 0),
        put("size", 0, 2**40),
        cut("threshold"),
        cut("values"),
        put("values", 0, np.nan),
        put("values", 0, -1.0),
        put("threshold", 0, np.nan),
        replace("values", lambda values: values[:, :2].copy()),
        state(random_states=[]),
        state(random_states=["seed"] * 4),
    ],
    "semiboost": [put("0.left_child", 0, 9999), put("1.feature", 0, 99), cut("2.values")],
    "logistic-regression": [
        put("coef_", 0, np.nan),
        put("intercept_", 0, np.inf),
        cut("coef_"),
        replace("coef_", lambda w: w[:, :2].copy()),
        lambda values, arrays: [],
        lambda values, arrays: [*values, *values],
        lambda values, arrays: {"classifier": values},
        lambda values, arrays: values[0]["classifier"].update(__classifier__="os"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        pytest.param(kind, change, id=f"{kind} {i}")
        for kind, changes in HOSTILE.items()
        for i, change in enumerate(changes)
    ],
)
def test_a_hostile_classifier_is_refused(kind, change, saved):
    place = saved(kind)
    change_part(place, change)
    refuse(place)


def test_an_unedited_copy_opens(saved):
    place = saved("lightgbm")
    change_part(place, lambda values, arrays: None)
    p = load(place).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)


@pytest.mark.parametrize("name", ["n_jobs", "num_threads"])
def test_a_model_does_not_start_a_million_threads(name, saved):
    place = saved("lightgbm")
    change_part(place, setting(**{name: 10**6}))
    assert load(place).estimator_.get_params()[name] <= 1024


# -- the profile of the training table ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda profile: profile["columns"]["x"].update(kind="category"),
        lambda profile: profile["columns"]["x"].update(edges=[0.0, 1e999]),
        lambda profile: profile["columns"]["town"].update(levels=[["Oslo"]]),
        lambda profile: profile["columns"].update(unheard_of=profile["columns"]["x"]),
        lambda profile: profile["answers"].update(shares=[0.5, 0.5]),
        lambda profile: profile.update(effective=-1.0),
    ],
)
def test_a_hostile_profile_is_refused(change, saved):
    place = saved("profile")
    profile = json.loads((place / "profile.json").read_bytes())
    change(profile)
    write(place, "profile.json", json.dumps(profile).encode())
    refuse(place, "the profile of the training table does not belong to this model")


def test_a_profile_counts_only_if_the_manifest_lists_it(saved):
    place = saved("profile")
    assert not compare_with_training(load(place), FRAME)["drifted"]
    manifest = json.loads((place / "manifest.json").read_bytes())
    del manifest["files"]["profile.json"]
    write(place, "arrays.safetensors", (place / "arrays.safetensors").read_bytes(), manifest)
    assert not hasattr(load(place), "training_profile_")


def test_an_edited_profile_without_its_hash_is_refused(saved):
    place = saved("profile")
    (place / "profile.json").write_bytes((place / "profile.json").read_bytes().replace(b"0.0", b"0.1", 1))
    refuse(place, "was edited or damaged")


# -- the encoder of a table ----------------------------------------------------------------------------------


def objects(entry, kind):
    """Yield the attributes of every object of a kind in a saved step."""
    if isinstance(entry, dict):
        for value in entry.values():
            yield from objects(value, kind)
    elif isinstance(entry, list):
        if entry[:1] == ["object"] and entry[1][0].endswith(f".{kind}"):
            yield entry[1][1]
        for value in entry:
            yield from objects(value, kind)


def edit_object(kind, **changes):
    """Return an edit of an attribute of the last object of a kind, which is a fitted one."""

    def change(values, arrays):
        *_, attributes = (found for found in objects(values, kind) if FITTED[kind] in found)
        for name, value in changes.items():
            name = name if name in attributes else f"_{name}"  # of another version of the library
            assert name in attributes
            attributes[name] = value(attributes[name], arrays) if callable(value) else value

    return change


FITTED = {"OneHotEncoder": "categories_", "TfidfVectorizer": "vocabulary_", "BSpline": "k", "TableEncoder": "places_"}
FITTED |= {"UsefulColumns": "left_out_", "SimpleImputer": "statistics_", "MissingIndicator": "features_"}


def first_array(change_array):
    """Return a change of the first array in an attribute."""

    def change(attribute, arrays):
        pending = [attribute]
        while pending:
            entry = pending.pop()
            if isinstance(entry, list) and entry[:1] == ["array"]:
                arrays[entry[1]] = change_array(arrays[entry[1]].copy())
                return attribute
            pending += entry if isinstance(entry, list) else []
        raise AssertionError("no array")

    return change


def fill(value):
    return first_array(lambda array: np.full_like(array, value))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("table", edit_object("OneHotEncoder", _n_features_outs=["list", [1]])),
        ("table", edit_object("OneHotEncoder", _n_features_outs=["list", [10**6]])),
        ("table", edit_object("OneHotEncoder", _n_features_outs=["list", []])),
        ("table", edit_object("OneHotEncoder", _default_to_infrequent_mappings=fill(10**6))),
        ("table", edit_object("OneHotEncoder", _default_to_infrequent_mappings=fill(-1))),
        ("table", edit_object("OneHotEncoder", _infrequent_indices=fill(10**6))),
        ("table", edit_object("OneHotEncoder", _infrequent_enabled=False)),
        ("table", edit_object("OneHotEncoder", categories_=["list", []])),
        ("table", edit_object("OneHotEncoder", n_features_in_=3)),
        ("table", edit_object("TfidfVectorizer", vocabulary_=["dict", ["builtins.dict", [["on", 10**6]]]])),
        ("table", edit_object("TfidfVectorizer", vocabulary_=["dict", ["builtins.dict", [["on", -1]]]])),
        ("table", edit_object("TfidfVectorizer", vocabulary_=["dict", ["builtins.dict", [["on", 0.5]]]])),
        ("table", edit_object("TfidfVectorizer", input="filename")),
        ("table", edit_object("TableEncoder", places_=first_array(np.zeros_like))),
        ("splines", edit_object("BSpline", k=50)),
        ("splines", edit_object("BSpline", k=-1)),
        ("splines", edit_object("BSpline", t=first_array(lambda t: t[::-1].copy()))),
        ("splines", edit_object("BSpline", c=first_array(lambda c: c[:2].copy()))),
        ("splines", edit_object("BSpline", t=first_array(lambda t: t.astype(np.int64)))),
    ],
)
def test_a_hostile_step_is_refused(kind, change, saved):
    place = saved(kind)
    change_part(place, change)
    refuse(place, "is not a saved step")


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("steps/0.gz", edit_object("UsefulColumns", schema_=["dict", ["builtins.dict", []]]), "schema_ does not say"),
        ("steps/0.gz", edit_object("UsefulColumns", schema_=7), "schema_ does not say"),
        ("steps/1.gz", edit_object("TableEncoder", numbers_=fill(99)), "step 'tableencoder' of the model fails"),
        ("steps/2.gz", edit_object("SimpleImputer", _fill_dtype=-7), "step 'simpleimputer' of the model fails"),
        (
            "steps/2.gz",
            edit_object("MissingIndicator", features_=first_array(lambda at: np.arange(3).astype(at.dtype))),
            r"the steps of the model make \d+ features of a table, and its classifier takes \d+",
        ),
        ("steps/2.gz", edit_object("SimpleImputer", n_features_in_=99), "step 'simpleimputer' of the model fails"),
    ],
)
def test_steps_that_would_fail_with_every_row_are_refused(file, change, words, saved):
    place = saved("table")
    values, arrays = packed.unpack_file(file, (place / file).read_bytes())
    change(values, arrays)
    write(place, file, packed.pack_file(values, arrays))
    refuse(place, words)


def test_settings_with_which_no_row_can_be_read_are_refused(saved):
    place = saved("table")
    manifest = json.loads((place / "manifest.json").read_bytes())
    manifest["estimator"]["settings"]["estimator"] = 7
    write(place, "arrays.safetensors", (place / "arrays.safetensors").read_bytes(), manifest)
    refuse(place, "estimator=7; pass a classifier")


def test_a_step_has_no_folder_of_pickles(saved):
    place = saved("nested")

    def change(values, arrays):
        (pipeline,) = objects(values, "Pipeline")
        pipeline["memory"] = "somewhere"

    change_part(place, change)
    manifest = json.loads((place / "manifest.json").read_bytes())
    manifest["pipeline"]["settings"]["memory"] = "somewhere"
    write(place, "steps/0.gz", (place / "steps/0.gz").read_bytes(), manifest)
    model = load(place)
    assert model.memory is None
    assert model[0].memory is None


def test_an_encoder_that_makes_no_numbers_gives_an_error(saved):
    """NaN may be part of a fitted encoder, so that only the rows show it."""
    place = saved("table")

    def change(values, arrays):
        for name, array in arrays.items():
            if array.dtype == np.float64 and array.ndim == 1:
                arrays[name] = np.full_like(array, 1e308)

    change_part(place, change)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of overflow
        try:
            p = load(place).predict_proba(FRAME)
        except ValueError:  # of deepsep, or of the encoder
            return
    assert np.isfinite(p).all()


# -- weights -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["deepsep", "tsvm", "mean-teacher", "label-spreading", "entropy-logistic"])
def test_weights_that_are_not_finite_are_refused(kind, value, saved):
    place = saved(kind)
    whole = read_tensors((place / "arrays.safetensors").read_bytes())
    floats = [name for name, array in whole.items() if array.dtype.kind == "f" and array.size]
    for name in floats[:: max(len(floats) // 5, 1)]:
        spoilt = {key: array.copy() for key, array in whole.items()}
        spoilt[name].reshape(-1)[0] = value
        write(place, "arrays.safetensors", write_tensors(spoilt))
        refuse(place, "not finite")


def test_what_a_graph_spreads_are_probabilities(saved):
    place = saved("label-spreading")
    whole = read_tensors((place / "arrays.safetensors").read_bytes())
    for at, value in ((0, -0.5), (1, 1e30)):
        spoilt = {**whole, "label_distributions_": whole["label_distributions_"].copy()}
        spoilt["label_distributions_"][at] = value
        write(place, "arrays.safetensors", write_tensors(spoilt))
        refuse(place, "no probabilities")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("p", lambda p: p * np.nan),
        ("p", lambda p: p[1:].copy()),
        ("p", lambda p: p[:, :, ::-1] - 0.5),
        ("rows", lambda rows: rows + 150),
        ("rows", lambda rows: rows - 151),
        ("rows", lambda rows: rows * 0),
        ("rows", lambda rows: rows[1:].copy()),
        ("sizes", lambda sizes: -sizes),
        ("sizes", lambda sizes: sizes * 2**20),
        ("sizes", lambda sizes: sizes[1:].copy()),
        ("n_training", lambda n: n[1:].copy()),
        ("taking_part", lambda rows: rows[:0].copy()),
        ("taking_part", lambda rows: rows[:9].copy()),
        ("taking_part", lambda rows: rows + 1),
    ],
)
def test_predictions_out_of_fold_that_do_not_fit_are_refused(name, change, saved):
    place = saved("committee")
    arrays = read_tensors((place / "arrays.safetensors").read_bytes())
    key = f"held_out.{name}"
    arrays[key] = np.ascontiguousarray(change(arrays[key]).astype(arrays[key].dtype))
    write(place, "arrays.safetensors", write_tensors(arrays))
    refuse(place)


@pytest.mark.parametrize("changes", [{"n_repeats": 0}, {"n_repeats": 2}, {"names": ["tsvm", "tsvm", "tsvm"]}])
def test_predictions_out_of_fold_of_other_members_are_refused(changes, saved):
    place = saved("committee")
    manifest = json.loads((place / "manifest.json").read_bytes())
    held_out = manifest["estimator"]["state"]["held_out"]
    held_out.update(changes)
    write(place, "arrays.safetensors", (place / "arrays.safetensors").read_bytes(), manifest)
    refuse(place)


@pytest.mark.parametrize("kind", ["deepsep", "tsvm", "entropy-logistic", "logistic-regression"])
def test_weights_that_overflow_never_predict_nan(kind, saved):
    place = saved(kind)
    whole = read_tensors((place / "arrays.safetensors").read_bytes())
    spoilt = {
        name: np.full_like(array, np.finfo(array.dtype).max) if array.dtype.kind == "f" else array
        for name, array in whole.items()
    }
    write(place, "arrays.safetensors", write_tensors(spoilt))
    try:
        p = load(place).predict_proba(X)
    except DeepSepError:
        return
    assert np.isfinite(p).all()


# -- files that unpack without end ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lightgbm", "svm", "table"])
def test_a_part_does_not_fill_the_memory(kind, saved, monkeypatch):
    monkeypatch.setattr(packed, "ALLOWED_BYTES", 1 << 20)
    place = saved(kind)
    write(place, part_of(place), gzip.compress(bytes(1 << 26), mtime=0))
    refuse(place, "could fill the memory")


@pytest.mark.parametrize(
    "claim",
    [
        {"dtype": "F64", "shape": [10**12], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [1], "data_offsets": [0, 8 * 10**12]},
        {"dtype": "F64", "shape": [2**62, 2**62], "data_offsets": [0, 8]},
    ],
)
def test_an_array_is_no_larger_than_its_bytes(claim, saved):
    place = saved("svm")
    header = json.dumps({"values": claim}).encode()
    write(place, part_of(place), gzip.compress(len(header).to_bytes(8, "little") + header + bytes(8), mtime=0))
    refuse(place)


@pytest.mark.parametrize(
    "edit",
    [
        lambda m: m["estimator"].update(n_features_in_=10**12),
        lambda m: m["estimator"].update(n_features_in_=-1),
        lambda m: m["estimator"].update(n_features_in_="3"),
        lambda m: m["estimator"]["classes_"]["__labels__"].update(dtype="<U999999"),
    ],
)
def test_a_manifest_does_not_fill_the_memory(edit, saved):
    place = saved("lightgbm")
    manifest = json.loads((place / "manifest.json").read_bytes())
    edit(manifest)
    write(place, "arrays.safetensors", (place / "arrays.safetensors").read_bytes(), manifest)
    refuse(place)

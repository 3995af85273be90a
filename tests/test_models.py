"""Saved models: the same bits after a reload, and a clear error for everything that is not a whole model."""

import json
import os
import pickle
import shutil
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors
from scipy import sparse
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import deepsep.files.atomic
import deepsep.files.manifest
import deepsep.models
import deepsep.solvers.spaces
from deepsep import TSVM, DeepSep
from deepsep.core.training_rows import fingerprint
from deepsep.errors import (
    ApproximationWarning,
    DeepSepWarning,
    LabelWarning,
    ModelFileError,
    ParameterError,
    VersionError,
)
from deepsep.files.packed import pack_file
from deepsep.files.plain import decode_classes, encode_classes, pack, unpack
from deepsep.models import load, save

ROWS = np.random.default_rng(0).normal(size=(80, 3)) + np.repeat([[0, 0, 0], [4, 0, 0], [0, 4, 0], [0, 0, 4]], 20, 0)
CODES = np.repeat(np.arange(4), 20)
TEXT = np.array(["amber", "blue", "cyan", "dune"], dtype=object)


def some_labels(names, known=4, rows=80):
    """Labels of the first rows of each class, None elsewhere; the classes are as many as the names."""
    y = np.full(rows, None)
    for k in range(4):
        y[20 * k : 20 * k + known] = names[k % len(names)]
    return y


def same_bits(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()


def equal(a, b):
    """Whether two fitted attributes are the same, to the bit and to the type."""
    if sparse.issparse(a):
        assert type(a) is type(b)
        for part in ("data", "indices", "indptr"):
            same_bits(getattr(a, part), getattr(b, part))
    elif isinstance(a, np.ndarray):
        same_bits(a, b)
        if a.ndim > 1:  # products round differently in another order
            assert (a.flags.c_contiguous, a.flags.f_contiguous) == (b.flags.c_contiguous, b.flags.f_contiguous)
    elif isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            equal(x, y)
    else:
        assert type(a) is type(b)
        assert a == b


def assert_same_model(model, again, X):
    assert type(model) is type(again)
    assert model.get_params() == again.get_params()
    of_a_file = {"provenance_"}
    assert vars(model).keys() - of_a_file == vars(again).keys() - of_a_file
    for name in vars(model).keys() - model.get_params().keys() - {"_separator"} - of_a_file:
        equal(getattr(model, name), getattr(again, name))
    for n in (1, 7, X.shape[0]):
        same_bits(model.decision_function(X[:n]), again.decision_function(X[:n]))
        same_bits(model.predict(X[:n]), again.predict(X[:n]))
        if model.probability is not None:
            same_bits(model.predict_proba(X[:n]), again.predict_proba(X[:n]))
    assert hasattr(again, "predict_proba") is (model.probability is not None)


@pytest.fixture(scope="module")
def linear():
    return TSVM(random_state=0).fit(ROWS, some_labels(TEXT))


@pytest.fixture(scope="module")
def pipeline():
    return make_pipeline(StandardScaler(), TSVM(random_state=0)).fit(ROWS, some_labels(TEXT))


@pytest.fixture(scope="module")
def saved_linear(linear, tmp_path_factory):
    place = tmp_path_factory.mktemp("linear") / "model"
    save(linear, place)
    return place


@pytest.fixture(scope="module")
def saved_pipeline(pipeline, tmp_path_factory):
    place = tmp_path_factory.mktemp("pipeline") / "model"
    save(pipeline, place)
    return place


@pytest.fixture
def copy(saved_pipeline, tmp_path):
    """A saved pipeline to spoil; it has every file that a model may have."""
    return Path(shutil.copytree(saved_pipeline, tmp_path / "copy"))


def rewrite(place, **changes):
    """Edit files and manifest as a careful forger would: with hashes that fit."""
    manifest = json.loads((place / "manifest.json").read_bytes())
    for name, content in changes.pop("files", {}).items():
        (place / name).write_bytes(content)
        manifest["files"][name] = {"size": len(content), "sha256": deepsep.files.manifest.sha256(content)}
    edit = changes.pop("edit", lambda manifest: None)
    manifest.update(changes)
    edit(manifest)
    manifest.pop("sha256")
    manifest["sha256"] = deepsep.files.manifest.sha256(deepsep.files.manifest.canonical(manifest))
    (place / "manifest.json").write_bytes(deepsep.files.manifest.canonical(manifest))


def files_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


# -- the same bits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probability", ["platt", "cv", "softmax", "hard", None])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("names", [TEXT, TEXT[:2]], ids=["four classes", "two classes"])
def test_reload_predicts_the_same_bits(names, kernel, probability, tmp_path):
    model = TSVM(kernel=kernel, probability=probability, random_state=0).fit(ROWS, some_labels(names))
    save(model, tmp_path / "model")
    assert_same_model(model, load(tmp_path / "model"), ROWS)


@pytest.mark.parametrize(
    "setting",
    [
        {"algorithm": "cccp", "s": -0.3},
        {"balance": False, "C_star": 0.001},
        {"n_unlabeled": 10, "C_star": "pool"},
        {"priors": dict.fromkeys(TEXT[::-1], 0.25)},
        {"C": np.float64(0.3), "max_iter": np.int64(500), "gamma": 0.7, "kernel": "rbf"},
    ],
)
def test_reload_of_other_settings(setting, tmp_path):
    model = TSVM(random_state=0, **setting).fit(ROWS, some_labels(TEXT))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert list(again.priors or ()) == list(model.priors or ())  # in the same order
    assert_same_model(model, again, ROWS)


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_reload_of_sparse_rows(kernel, container, tmp_path):
    X = container(np.where(ROWS > 0.5, ROWS, 0))
    model = TSVM(kernel=kernel).fit(X, some_labels(TEXT))
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert sparse.issparse(again.support_vectors_) if kernel == "rbf" else again.coef_.shape == (4, 3)
    assert_same_model(model, again, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reload_of_more_columns_than_rows(dtype, tmp_path):
    X = np.random.default_rng(1).normal(size=(80, 200)).astype(dtype) + 3 * np.eye(4, 200, dtype=dtype)[CODES]
    model = TSVM().fit(X, some_labels(TEXT))
    assert model.space_ == "Gram"
    assert not model.coef_.flags.c_contiguous  # the case in which the order in memory matters
    save(model, tmp_path / "model")
    assert_same_model(model, load(tmp_path / "model"), X)


def test_reload_of_a_nystroem_map(tmp_path, monkeypatch):
    monkeypatch.setattr(deepsep.solvers.spaces, "EXACT_ROWS", 60)
    monkeypatch.setattr(deepsep.solvers.spaces, "N_LANDMARKS", 30)
    with pytest.warns(ApproximationWarning):
        model = TSVM(kernel="rbf", random_state=0).fit(ROWS, some_labels(TEXT))
    assert model.space_ == "Nyström"
    save(model, tmp_path / "model")
    assert_same_model(model, load(tmp_path / "model"), ROWS)


@pytest.mark.parametrize(
    "names",
    [
        np.array(["é", "日本", "\ud800 lone", 'quote "', ""], dtype=object),
        np.array([7, 2**40], dtype=np.int64),
        np.array([3, 250], dtype=np.uint8),
        np.array([True, False]),
        np.array([0.0, 2.0], dtype=np.float32),
        np.array(["a", "longer"], dtype="<U20"),
    ],
    ids=["text", "int64", "uint8", "bool", "float32", "U20"],
)
@pytest.mark.filterwarnings("ignore:.*have the label '':deepsep.errors.LabelWarning")
def test_labels_keep_value_and_type(names, tmp_path):
    codes = np.resize(np.arange(len(names)), 80)
    with pytest.warns(LabelWarning, match="no unlabelled rows"):
        model = TSVM(probability=None).fit(ROWS + 5 * codes[:, None], names[codes])
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    same_bits(model.classes_, again.classes_)
    same_bits(model.transduction_, again.transduction_)
    same_bits(model.predict(ROWS), again.predict(ROWS))
    assert [type(name) for name in again.classes_.tolist()] == [type(name) for name in model.classes_.tolist()]


def test_columns_of_a_data_frame(tmp_path):
    frame = pd.DataFrame(ROWS, columns=["width", "height", "depth"])
    model = TSVM().fit(frame, some_labels(TEXT))
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.feature_names_in_.tolist() == ["width", "height", "depth"]
    same_bits(model.predict_proba(frame), again.predict_proba(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.rename(columns={"depth": "weight"}))


def test_reloaded_model_can_be_fitted_and_saved_again(saved_linear, linear, tmp_path):
    again = load(saved_linear)
    save(again, tmp_path / "copy")
    assert_same_model(linear, load(tmp_path / "copy"), ROWS)
    assert_same_model(linear, again.fit(ROWS, some_labels(TEXT)), ROWS)


# -- pipelines -----------------------------------------------------------------------------------------------


def test_pipeline_predicts_the_same_bits(pipeline, saved_pipeline):
    again = load(saved_pipeline)
    assert isinstance(again, Pipeline)
    assert list(again.named_steps) == list(pipeline.named_steps)
    same_bits(pipeline.predict_proba(ROWS), again.predict_proba(ROWS))
    assert_same_model(pipeline[-1], again[-1], pipeline[0].transform(ROWS))


def test_pipeline_of_a_mixed_table(tmp_path):
    frame = pd.DataFrame(ROWS, columns=list("abc")).assign(town=np.resize(["Oslo", "Rome", "Bern"], 80))
    numbers = make_column_selector(dtype_include=np.number)
    columns = make_column_transformer(
        (make_pipeline(StandardScaler(), FunctionTransformer(np.arcsinh)), numbers),
        (OneHotEncoder(handle_unknown="ignore", dtype=np.float32), ["town"]),
        remainder="passthrough",
    )
    model = Pipeline([("table", columns), ("keep", "passthrough"), ("last", TSVM(kernel="rbf"))], verbose=False)
    model.fit(frame, some_labels(TEXT))
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    same_bits(model.predict_proba(frame), again.predict_proba(frame))
    same_bits(model.predict(frame[::-1]), again.predict(frame[::-1]))
    assert again.feature_names_in_.tolist() == [*"abc", "town"]
    stored = json.loads((tmp_path / "model" / "manifest.json").read_bytes())["pipeline"]["columns"]
    assert unpack(stored).tolist() == [*"abc", "town"]
    with pytest.raises(ValueError, match=r"columns are missing: \{'town'\}"):
        again.predict(frame.drop(columns="town"))


@pytest.mark.parametrize(
    "step",
    [
        FunctionTransformer(lambda X: X),
        FunctionTransformer(os.path.join),
        FunctionTransformer(partial(np.clip, a_min=0, a_max=1)),
        FeatureUnion([("mine", FunctionTransformer(pickle.loads))]),
    ],
    ids=["lambda", "module function", "partial", "nested"],
)
def test_steps_with_functions_are_not_saved(step, tmp_path):
    model = make_pipeline("passthrough", TSVM()).fit(ROWS, some_labels(TEXT))
    model.steps[0] = ("odd", step)
    with pytest.raises(ModelFileError, match=r"step 'odd' .*cannot be saved"):
        save(model, tmp_path / "model")
    assert files_below(tmp_path) == []


# -- what cannot be saved ------------------------------------------------------------------------------------


def test_own_kernel_is_not_saved(tmp_path):
    model = TSVM(kernel=polynomial_kernel).fit(ROWS, some_labels(TEXT))
    with pytest.raises(ModelFileError, match=r"kernel=<function polynomial_kernel.*no code"):
        save(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match="your own kernel"):
        save(model.set_params(kernel="rbf"), tmp_path / "model")
    assert files_below(tmp_path) == []


def test_generator_is_not_saved_and_the_advice_works(tmp_path):
    model = TSVM(random_state=np.random.RandomState(0)).fit(ROWS, some_labels(TEXT))
    with pytest.raises(ModelFileError, match=r"set_params\(random_state=\.\.\.\)"):
        save(model, tmp_path / "model")
    save(model.set_params(random_state=0), tmp_path / "model")
    assert_same_model(model, load(tmp_path / "model"), ROWS)


class Mine(TSVM):
    pass


@pytest.mark.parametrize("model", [LogisticRegression(), Mine(), make_pipeline(LogisticRegression()), "model"])
def test_other_models_are_refused(model, tmp_path):
    with pytest.raises(ModelFileError, match=r"deepsep\.save takes deepsep.s own"):
        save(model, tmp_path / "model")


@pytest.mark.parametrize("model", [TSVM(), make_pipeline(StandardScaler(), TSVM())])
def test_unfitted_models_are_refused(model, tmp_path):
    with pytest.raises(NotFittedError):
        save(model, tmp_path / "model")
    assert files_below(tmp_path) == []


# -- writing -------------------------------------------------------------------------------------------------


def test_manifest_says_what_the_model_is(saved_pipeline, pipeline):
    manifest = json.loads((saved_pipeline / "manifest.json").read_bytes())
    assert manifest["format"] == "deepsep-model"
    assert {"deepsep", "python", "numpy", "scikit-learn"} <= manifest["versions"].keys()
    assert manifest["estimator"]["kind"] == "TSVM"
    assert manifest["estimator"]["settings"]["C"] == 0.1
    assert manifest["estimator"]["data_fingerprint_"] == pipeline[-1].data_fingerprint_
    assert unpack(manifest["estimator"]["classes_"]).tolist() == TEXT.tolist()
    assert files_below(saved_pipeline) == ["arrays.safetensors", "manifest.json", "steps", "steps/0.gz"]
    assert manifest["files"].keys() == {"arrays.safetensors", "steps/0.gz"}


def test_replacing_a_model_keeps_other_files(linear, saved_pipeline, tmp_path):
    place = Path(shutil.copytree(saved_pipeline, tmp_path / "model"))
    (place / "predictions.parquet").write_text("mine")
    save(linear, place)
    assert files_below(tmp_path) == [
        "model",
        *(f"model/{name}" for name in ("arrays.safetensors", "manifest.json", "predictions.parquet")),
    ]
    assert (place / "predictions.parquet").read_text() == "mine"
    assert_same_model(linear, load(place), ROWS)


def test_empty_folders_and_new_parents_are_filled(linear, tmp_path):
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "a" / "b" / "model", str(tmp_path / "text")):
        save(linear, place)
        assert_same_model(linear, load(place), ROWS)


def test_foreign_places_are_not_overwritten(linear, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "manifest.json").write_text('{"name": "a web page"}')
    for place in ("file", "folder"):
        with pytest.raises(ModelFileError, match="not overwrit"):
            save(linear, tmp_path / place)
    assert files_below(tmp_path) == ["file", "folder", "folder/manifest.json"]
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()], ids=["disk full", "Ctrl-C"])
@pytest.mark.parametrize(
    ("existing", "action", "nth"),
    [
        *(
            (False, action, nth)
            for action, nth in [("open", 0), ("fsync", 0), ("open", 1), ("fsync", 1), ("rename", 0)]
        ),
        *((True, action, nth) for action, nth in [("open", 1), ("rename", 0), ("rename", 1), ("rename", 2)]),
    ],
)
def test_failure_leaves_everything_as_it_was(
    existing, action, nth, failure, linear, saved_pipeline, tmp_path, monkeypatch
):
    """Whichever step of writing or moving fails, the old model is whole and nothing is left behind."""
    place = tmp_path / "model"
    if existing:
        shutil.copytree(saved_pipeline, place)
        (place / "report.html").write_text("mine")

    def content():
        return {name: (tmp_path / name).is_dir() or (tmp_path / name).read_bytes() for name in files_below(tmp_path)}

    before = content()
    owner = deepsep.files.atomic if action == "open" else os
    real = open if action == "open" else getattr(os, action)
    left = nth

    def failing(*args):
        nonlocal left
        left -= 1
        if left == -1:
            raise failure
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(owner, action, failing, raising=False)
        with pytest.raises(type(failure)):
            save(linear, place)
    assert content() == before


# -- reading what is no model --------------------------------------------------------------------------------

FILES = ["manifest.json", "arrays.safetensors", "steps/0.gz"]


def refuse(place, match=None):
    """The one outcome for a folder that is no whole model; warnings would be errors of another type."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModelFileError, match=match):
            load(place)


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_flipped_byte_anywhere(name, data, saved_pipeline, tmp_path):
    place = tmp_path / "copy"
    if not place.exists():
        shutil.copytree(saved_pipeline, place)
    whole = (saved_pipeline / name).read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    other = data.draw(st.integers(1, 255))
    (place / name).write_bytes(whole[:at] + bytes([whole[at] ^ other]) + whole[at + 1 :])
    refuse(place)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("part", [0, 1, 8, 100, -1])
def test_truncated_files(name, part, copy):
    whole = (copy / name).read_bytes()
    (copy / name).write_bytes(whole[:part])
    refuse(copy, name)
    (copy / name).write_bytes(whole + b"\n")
    refuse(copy, name)


@pytest.mark.parametrize("name", FILES)
def test_missing_and_strange_files(name, copy, tmp_path):
    whole = (copy / name).read_bytes()
    (copy / name).unlink()
    refuse(copy, name)
    (tmp_path / "outside").write_bytes(whole)
    (copy / name).symlink_to(tmp_path / "outside")
    refuse(copy, "is a link")
    (copy / name).unlink()
    (copy / name).mkdir()
    refuse(copy, "is not a file")


def test_linked_steps_are_not_followed(copy, tmp_path):
    shutil.move(copy / "steps", tmp_path / "outside")
    (copy / "steps").symlink_to(tmp_path / "outside")
    refuse(copy, "is a link")


def test_places_that_are_no_model(tmp_path):
    refuse(tmp_path / "nothing", "does not exist")
    refuse(tmp_path, "no manifest.json")
    (tmp_path / "model.pkl").write_bytes(pickle.dumps({"a": 1}))
    refuse(tmp_path / "model.pkl", "is a file")
    for text in ("{", "[]", "3", '{"format": "other"}', "[" * 100_000, '{"format": "deepsep-model"}', '"\udc80"'):
        (tmp_path / "manifest.json").write_text(text, errors="surrogateescape")
        refuse(tmp_path, "manifest.json")


def test_model_in_a_linked_folder_and_beside_other_files(saved_linear, linear, tmp_path):
    (tmp_path / "link").symlink_to(saved_linear)
    assert_same_model(linear, load(tmp_path / "link"), ROWS)
    copy = shutil.copytree(saved_linear, tmp_path / "copy")
    (Path(copy) / "report.html").write_text("mine")
    assert_same_model(linear, load(copy), ROWS)


def test_interrupted_replacement_is_pointed_out(saved_linear, tmp_path):
    shutil.copytree(saved_linear, tmp_path / ".model.12ab.old")
    refuse(tmp_path / "model", r"\.model\.12ab\.old")


def test_edited_manifest(copy):
    text = (copy / "manifest.json").read_text()
    (copy / "manifest.json").write_text(text.replace('"amber"', '"ember"'))
    refuse(copy, "edited or damaged")
    (copy / "manifest.json").write_text(text.replace("\n", " ", 1))  # means the same, but is not what was written
    refuse(copy, "edited or damaged")


def test_newer_format_is_refused_with_the_way_out(copy):
    rewrite(copy, format_version=2, versions={"deepsep": "9.1.0"})
    with pytest.raises(VersionError, match=r"deepsep 9\.1\.0 in format 2.*Upgrade deepsep"):
        load(copy)
    rewrite(copy, format_version=0)
    with pytest.raises(VersionError, match="format 0"):
        load(copy)


@pytest.mark.parametrize(("package", "version"), [("deepsep", "0.0.9"), ("deepsep", "7.0"), ("scikit-learn", "1.2.0")])
def test_other_versions_warn(package, version, copy, saved_linear, tmp_path):
    rewrite(copy, edit=lambda manifest: manifest["versions"].update({package: version}))
    with pytest.warns(DeepSepWarning, match=f"{package} {version}, but {package}") as seen:
        assert load(copy).predict(ROWS).shape == (80,)
    assert [warning.filename for warning in seen] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeepSepWarning):
            load(copy)
        alone = Path(shutil.copytree(saved_linear, tmp_path / "alone"))  # without steps, scikit-learn matters little
        rewrite(alone, edit=lambda manifest: manifest["versions"].update({"scikit-learn": "1.2.0"}))
        load(alone)


# -- forgeries: every hash fits ------------------------------------------------------------------------------


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("exploded",))


STANDARD = "sklearn.preprocessing._data.StandardScaler"

FORGED = {
    "pickle": pickle.dumps(Bomb()),
    "function": pack_file(["function", "os.mkdir"], {}),
    "type": pack_file(["type", "os.mkdir"], {}),
    "object": pack_file(["object", ["pathlib.Path", {}]], {}),
    "function as an object": pack_file(["object", ["os.mkdir", {}]], {}),
    "mapping": pack_file(["dict", ["os.mkdir", [["path", "exploded"]]]], {}),
    "nested": pack_file(["object", [STANDARD, {"scale_": ["list", [["function", "os.mkdir"]]]}]], {}),
    "reader": pack_file(["_reader", []], {}),
    "unknown kind": pack_file(["call", ["os.mkdir", "exploded"]], {}),
    "odd kind": pack_file([["list"], []], {}),
    "mapping for an entry": pack_file({"object": STANDARD}, {}),
    "no such array": pack_file(["object", [STANDARD, {"mean_": ["array", "7"]}]], {}),
    "no such object": pack_file(["object", [STANDARD, {"mean_": ["same", 7]}]], {}),
    "itself": pack_file(["same", 0], {}),
    "pickled cells": pack_file(["cells", ["|V8", [1], [0]]], {}),
    "large cells": pack_file(["object", [STANDARD, {"a": ["cells", ["<U100000000", [1], ["a"]]]}]], {}),
    "odd state": pack_file(["random", ["MT19937", ["array", "0"], 0, 0, 0.0]], {"0": np.arange(3)}),
    "unlisted": pack_file(["object", ["sklearn.preprocessing._data.KernelCenterer", {}]], {}),
    "classifier": pack_file(["object", ["sklearn.linear_model._logistic.LogisticRegression", {}]], {}),
    "no transformer": pack_file(["list", []], {}),
    "deep": pack_file(json.loads('["list", [' * 200 + "]]" * 200), {}),
    "nothing": b"",
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED.keys())
def test_forged_steps_run_nothing(forged, copy, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rewrite(copy, files={"steps/0.gz": forged})
    refuse(copy)
    assert not (tmp_path / "exploded").exists()


def test_refusal_names_the_type(copy):
    rewrite(copy, files={"steps/0.gz": pack_file(["function", "os.mkdir"], {})})
    refuse(copy, r"names os\.mkdir.*Nothing was run")


@pytest.mark.parametrize(
    "edit",
    [
        lambda m: m["estimator"].update(kind="os"),
        lambda m: m["estimator"].update(kind=["TSVM"]),
        lambda m: m["estimator"].pop("classes_"),
        lambda m: m["estimator"].update(n_features_in_=7),
        lambda m: m["estimator"]["settings"].update(unheard_of=1),
        lambda m: m["estimator"]["classes_"]["__labels__"].update(dtype="O"),
        lambda m: m["estimator"]["classes_"]["__labels__"].update(dtype="<i8"),
        lambda m: m["estimator"]["classes_"]["__labels__"].update(values=["amber"]),
        lambda m: m["arrays"].pop("coef_"),
        lambda m: m["arrays"].pop("transduction_"),
        lambda m: m["arrays"]["coef_"].update(shape=[3, 4]),
        lambda m: m["arrays"].update(more={"order": "C", "shape": [1]}),
        lambda m: m.pop("versions"),
        lambda m: m.update(pipeline={"names": ["a", "b", "c"]}),
        lambda m: m.update(pipeline=None),
        lambda m: m.update(files={"../../secret": m["files"]["arrays.safetensors"]}),
        lambda m: m["files"].update({"/etc/hostname": {"size": 0, "sha256": ""}}),
        lambda m: m.update(estimator=None),
        lambda m: m.update(format_version="one"),
    ],
)
def test_forged_manifests(edit, copy):
    rewrite(copy, edit=edit)
    refuse(copy)


def test_forged_arrays(copy, tmp_path):
    rewrite(copy, files={"arrays.safetensors": pickle.dumps(Bomb())})
    refuse(copy, "not a safetensors file")
    X = sparse.csr_matrix(ROWS)
    save(TSVM(kernel="rbf").fit(X, some_labels(TEXT)), tmp_path / "sparse")
    arrays = read_tensors((tmp_path / "sparse" / "arrays.safetensors").read_bytes())
    for change, message in (
        ({"support_vectors_.indices": arrays["support_vectors_.indices"] + 1_000_000}, None),
        ({"transduction_": None}, "the model has no array 'transduction_'"),
    ):
        changed = {name: array for name, array in {**arrays, **change}.items() if array is not None}
        place = Path(shutil.copytree(tmp_path / "sparse", tmp_path / next(iter(change))))
        rewrite(place, files={"arrays.safetensors": write_tensors(changed)})
        refuse(place, message)


# -- an encoder of the user's --------------------------------------------------------------------------------


def make_encoder():
    torch = pytest.importorskip("torch")
    return torch.nn.Linear(ROWS.shape[1], 4)


def fit_encoded(**settings):
    quick = {"rounds": 1, "initial_epochs": 2, "label_epochs": 1, "propensity_epochs": 1, "random_state": 0}
    quick["balance"] = True  # boundaries in an embedding that was hardly trained may collapse
    return DeepSep(**quick, **settings).fit(ROWS, some_labels(TEXT))


def test_own_encoder_is_asked_for(tmp_path):
    model = fit_encoded(encoder=make_encoder, callback=lambda row: None)
    save(model, tmp_path / "model")
    refuse(tmp_path / "model", r"make_encoder.*load\(path, encoder=factory\)")
    again = load(tmp_path / "model", encoder=make_encoder)
    assert again.encoder is make_encoder
    assert again.callback is None
    same_bits(model.predict_proba(ROWS), again.predict_proba(ROWS))


def test_needless_encoder_is_refused(saved_linear, tmp_path):
    save(fit_encoded(), tmp_path / "model")
    assert load(tmp_path / "model").encoder is None
    for place in (tmp_path / "model", saved_linear):
        with pytest.raises(ParameterError, match="no encoder of your own"):
            load(place, encoder=make_encoder)


# -- parts ---------------------------------------------------------------------------------------------------

KEYS = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
VALUES = st.recursive(
    KEYS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.one_of(KEYS, st.sampled_from(["__tuple__", "__code__"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=VALUES)
def test_plain_values_come_back(value):
    again = unpack(json.loads(json.dumps(pack(value), allow_nan=False)))
    assert again == value
    assert repr(again) == repr(value)


@given(
    values=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5), kind=st.sampled_from(["i4", "i8", "f8"])
)
def test_labels_come_back(values, kind):
    labels = np.array(values, dtype=kind)
    same_bits(labels, decode_classes(json.loads(json.dumps(encode_classes(labels)))))


def test_fingerprint_tells_data_sets_apart():
    frame = pd.DataFrame(ROWS, columns=list("abc"))
    y = some_labels(TEXT)
    prints = [
        model.fit(*data).data_fingerprint_
        for model in (TSVM(), TSVM(C=7, kernel="rbf"))
        for data in (
            (ROWS, y),
            (ROWS[::-1], y[::-1]),
            (ROWS.astype(np.float32), y),
            (frame, y),
            (ROWS, some_labels(TEXT, known=5)),
            (np.where(np.arange(80)[:, None] == 50, ROWS + 1e-9, ROWS), y),
        )
    ]
    assert len(set(prints)) == 6
    assert prints[:6] == prints[6:]  # it is about the data, not about the settings
    wide = np.ones((2_000, 1_500), np.float32)
    assert len(fingerprint(wide, np.zeros(2_000, int))) == 32
    assert fingerprint(sparse.csr_matrix(ROWS), np.arange(80)) == fingerprint(sparse.csr_array(ROWS), np.arange(80))

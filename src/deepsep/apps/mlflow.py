"""Models in MLflow: logged as the folder that :func:`deepsep.save` writes, loaded as a pyfunc or as they were.

MLflow keeps this folder, which has no pickle, and the name of this module, which opens it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from deepsep._version import __version__
from deepsep.errors import ModelFileError, missing_package
from deepsep.files.manifest import MANIFEST_FILE, read_file, read_manifest, versions
from deepsep.model.table_model import load
from deepsep.models import save
from deepsep.scoring.frame import score_frame
from deepsep.scoring.leaving_out import values_in_training
from deepsep.scoring.who_scores import schema_of


def save_model(model: Any, path: str | os.PathLike[str], *, input_example: Any = None, **options: Any) -> None:
    """Write a model to a folder in MLflow's format.

    Parameters
    ----------
    model : fitted model, str or path
        A model that :func:`deepsep.save` takes, or the folder of a saved one.
    path : str or path
        A new folder.
    input_example : DataFrame, optional
        Rows as they will be sent, from which MLflow infers the types of the columns. By default typical values from the
        profile of the training table, if the model has one, and any type that deepsep can read as that of the column.
    **options
        Passed to ``mlflow.pyfunc.save_model``.
    """
    with _described(model, input_example) as description:
        _mlflow("pyfunc").save_model(path, **{**description, **options})


def log_model(model: Any, name: str = "model", *, input_example: Any = None, **options: Any) -> Any:
    """Log a model to MLflow, in the active run or by itself.

    ``mlflow.pyfunc.load_model`` loads it as a pyfunc, whose ``predict`` takes a DataFrame and returns what
    :func:`deepsep.scoring.score_frame` does: the label, the probability of each class, and the confidence.
    ``params={"fast": True}`` asks the student of a committee.

    Parameters
    ----------
    model, input_example
        As in :func:`save_model`.
    name : str, default="model"
        The name in MLflow.
    **options
        Passed to ``mlflow.pyfunc.log_model``, such as ``registered_model_name``.

    Returns
    -------
    mlflow.models.model.ModelInfo
        With its ``model_uri``.
    """
    with _described(model, input_example) as description:
        return _mlflow("pyfunc").log_model(name=name, **{**description, **options})


def load_model(model_uri: str) -> Any:
    """Return the model that was logged, as :func:`deepsep.load` does: a classifier, or a pipeline that ends in one.

    Parameters
    ----------
    model_uri : str
        Such as ``models:/churn/3``, ``runs:/<run>/model``, or the folder that :func:`save_model` wrote.
    """
    root = Path(_mlflow("artifacts").download_artifacts(artifact_uri=str(model_uri)))
    flavor = _mlflow("models").Model.load(str(root)).flavors.get("python_function", {})
    if flavor.get("loader_module") != __name__:
        raise ModelFileError(f"{model_uri} was not logged by {__name__}. Load it with mlflow.pyfunc.load_model.")
    return load(root / flavor["data"])


class PyfuncModel:
    """Model from :func:`deepsep.load`, with the interface of ``mlflow.pyfunc``."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Return the label, the probabilities and the confidence of every row."""
        fast = bool((params or {}).get("fast"))
        return score_frame(self.model, model_input, fast=fast).drop(columns="row")


def _load_pyfunc(path: str) -> PyfuncModel:
    """Open the folder for MLflow, which calls this function by its name."""
    return PyfuncModel(load(path))


@contextmanager
def _described(model: Any, example: Any) -> Iterator[dict[str, Any]]:
    """Yield the arguments for MLflow, while the folder of the model exists."""
    _mlflow("pyfunc")
    with TemporaryDirectory() as place:
        if isinstance(model, str | os.PathLike):
            folder = _copied(Path(model).resolve(), Path(place))
        else:
            folder = Path(place, "model")
            save(model, folder)
        model = load(folder)
        yield {
            "loader_module": __name__,
            "data_path": str(folder),
            "signature": _signature(model, example),
            "input_example": _example(model) if example is None else example,
            "pip_requirements": [f"deepsep=={__version__}", f"scikit-learn=={versions()['scikit-learn']}"],
            "metadata": {"deepsep": model.provenance_},
        }


def _copied(saved: Path, place: Path) -> Path:
    """Return a copy of a saved model without other files in its folder, such as predictions."""
    folder = place / saved.name
    for name in (MANIFEST_FILE, *read_manifest(saved)["files"]):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(read_file(saved, name))
    return folder


def _example(model: Any, n_rows: int = 3) -> pd.DataFrame | None:
    """Return rows of typical values from the profile of the training table, which does not contain its rows."""
    kinds, values = schema_of(model), values_in_training(model)
    if values is None or not values.keys() >= kinds.keys():
        return None
    few = {name: values[name][0] for name in kinds}
    return pd.DataFrame({name: [each[i % len(each)] for i in range(n_rows)] for name, each in few.items()})


def _signature(model: Any, example: Any) -> Any:
    """Return the columns that a model takes and gives, with their types."""
    models, schema = _mlflow("models"), _mlflow("types.schema")
    kinds = schema_of(model)
    if example is None and not kinds:
        return None
    rows = pd.DataFrame({name: [None] for name in kinds}) if example is None else example
    signature = models.infer_signature(rows, PyfuncModel(model).predict(rows), {"fast": False})
    if example is None:
        # MLflow refuses integers where it expects fractions, and text where it expects dates: deepsep reads both.
        types = {name: "string" if kind == "text" else schema.AnyType() for name, kind in kinds.items()}
        columns = [schema.ColSpec(kind, name, required=kind == "string") for name, kind in types.items()]
        signature.inputs = schema.Schema(columns)
    return signature


def _mlflow(module: str) -> Any:
    try:
        return import_module(f"mlflow.{module}")
    except ImportError as error:
        raise missing_package("deepsep.apps.mlflow", "'deepsep[mlflow]'") from error

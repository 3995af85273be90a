"""Write a network, with the encoding of its table, as an ONNX file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deepsep._version import __version__
from deepsep.apps.onnx.onnx_graph import Graph, Tensor
from deepsep.apps.onnx.onnx_table import check_expressible, declare_columns, encode_table, far_columns
from deepsep.classifiers.committee.student import Student
from deepsep.classifiers.deep_separation.deepsep import DeepSep
from deepsep.core.model_parts import estimator_of, is_pipeline
from deepsep.core.scaling import MAX_MAGNITUDE
from deepsep.errors import ParameterError
from deepsep.files.atomic import replace_file
from deepsep.scoring.who_scores import label_of, schema_of, student_of, with_student


def export_onnx(model: Any, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Write the student of a committee, or a DeepSep, with the encoding of its table to an ONNX file.

    The file needs neither deepsep nor Python. It takes one tensor of shape (rows, 1) for each column that the model
    uses, by its name, and gives ``label``, (rows,), and ``probabilities``, (rows, classes):

    ==========  =====================================================================
    number      float; NaN for a gap
    text        string, without blanks around it; empty for a gap
    boolean     string, "true" or "false"; empty for a gap
    date        double, the seconds since 1970 in UTC; NaN for a gap
    ==========  =====================================================================

    Numbers beyond the range of single precision are double. A model without :func:`deepsep.for_table` takes one tensor
    ``X`` of double, (rows, features). The file's metadata has the classes, the columns with their types, and where the
    model comes from.

    Parameters
    ----------
    model : fitted Committee or DeepSep, or a pipeline of ``for_table`` that ends in one
        For a committee, its student is written; the members are not all networks.
    path : str or path
        The file; an earlier one is replaced.

    Returns
    -------
    dict
        ``exported``, "student" or "deepsep"; ``inputs``, the type of each column; ``outputs``, their names.

    Raises
    ------
    DataError
        If a column cannot be expressed in ONNX: text of 100 different values or more. All such columns are listed.
    ParameterError
        If the model is not a network, or its pipeline has other steps than those of ``for_table``.
    """
    check_is_fitted(model)
    network = _network(model)
    graph = Graph()
    if is_pipeline(network):
        check_expressible(network)
        columns = declare_columns(graph, network)
        rows = graph.cast(encode_table(graph, network, columns), np.float64)
        schema = {name: str(kind) for name, kind in schema_of(network).items()}
        far = far_columns(network[1])
        types = {
            "number": "float",
            "boolean": "string: true, false",
            "date": "double: seconds since 1970, UTC",
            "text": "string",
        }
        inputs = {name: "double" if name in far else types[kind] for name, kind in schema.items()}
        estimator = network[-1]
    else:
        estimator, schema = network, {}
        rows = graph.input("X", np.float64, network.n_features_in_)
        inputs = {"X": f"double, {network.n_features_in_} features"}
    p = _probabilities(graph, estimator, rows)
    classes = estimator.classes_
    best = graph.op("ArgMax", p, axis=1, keepdims=0)
    dtype: type = {"i": np.int64, "u": np.int64, "f": np.float64, "b": bool}.get(classes.dtype.kind, str)
    names = graph.gather(classes.astype(object if dtype is str else dtype), best)
    outputs = [
        graph.output(names, "label", dtype),
        graph.output(graph.cast(p, np.float32), "probabilities", np.float32, len(classes)),
    ]
    notes = _notes(model, estimator, schema)
    replace_file(Path(path), graph.to_bytes("deepsep", notes, __version__))
    return {"exported": estimator.method_name, "inputs": inputs, "outputs": outputs}


def _network(model: Any) -> Any:
    """Return the model with the student in place of a committee; raise if it is not a network."""
    last = estimator_of(model)
    if isinstance(last, DeepSep | Student):
        return model
    if student_of(model) is not None:
        return with_student(model)
    if hasattr(last, "student_"):
        raise ParameterError(
            "the committee has no student, the only part of it that can be written as ONNX. Fit it again with at least "
            "100 unlabelled rows and without student=False."
        )
    raise ParameterError(
        f"{type(last).__name__} cannot be written as ONNX: only the student of a committee and DeepSep can. Fit a "
        "committee, which deepsep fit does by default, or DeepSep."
    )


def _probabilities(graph: Graph, estimator: Any, rows: Tensor) -> Tensor:
    """Return the result of ``estimator.predict_proba``, in double precision."""
    if estimator._exponents is not None:
        rows = rows * np.ldexp(1.0, -estimator._exponents)
    average = estimator.network_average()
    rows = graph.op("Clip", rows, np.float64(-MAX_MAGNITUDE), np.float64(MAX_MAGNITUDE))
    scaled = graph.cast((rows - average.centre) * average.factor, np.float32)
    p = _weighted(graph, average, scaled)
    p = p / graph.op("ReduceSum", p, np.array([1]), keepdims=1)
    temperature, shift = getattr(estimator, "temperature_", 1.0), getattr(estimator, "prior_shift_", None)
    if temperature != 1.0:
        p = graph.op("Softmax", _log(graph, p) / np.float64(temperature), axis=1)
    if shift is not None:
        p = graph.op("Softmax", _log(graph, p) + shift.astype(np.float64), axis=1)
    return p


def _weighted(graph: Graph, average: Any, rows: Tensor) -> Tensor:
    """Return the weighted sum of the networks' probabilities."""
    parts = []
    for weight, network in average.networks:
        *hidden, (W, b) = [(W.astype(np.float32), b.astype(np.float32)) for W, b in network.plain_layers()]
        x = rows
        for inner, bias in hidden:
            x = graph.op("Tanh", x @ inner + bias)
        p = graph.op("Softmax", x @ W + b, axis=1)
        parts.append(graph.cast(p, np.float64) * np.float64(weight))
    return parts[0] if len(parts) == 1 else graph.op("Sum", *parts)


def _log(graph: Graph, p: Tensor) -> Tensor:
    return graph.op("Log", graph.op("Max", p, np.float64(1e-30)))


def _notes(model: Any, estimator: Any, schema: dict[str, str]) -> dict[str, str]:
    """Return the metadata of the file: classes, columns, and the origin of the model."""
    provenance = getattr(model, "provenance_", {}) or {"training_data": estimator.data_fingerprint_}
    notes = {f"model_{name}": str(value) for name, value in provenance.items() if value is not None}
    notes |= {"exported": estimator.method_name, "exported_by": f"deepsep {__version__}"}
    if isinstance(estimator, Student):
        notes |= {"agreement": str(estimator.agreement_), "accuracy_loss": str(estimator.accuracy_loss_)}
    label = label_of(model)
    notes |= {} if label is None else {"label": label}
    return notes | {"classes": json.dumps(estimator.classes_.tolist()), "columns": json.dumps(schema)}

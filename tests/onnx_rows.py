"""A table as the inputs of an ONNX file, written without deepsep, as a user would."""

import json

import numpy as np
import onnxruntime
import pandas as pd


def open_file(file) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])


def notes(session: onnxruntime.InferenceSession) -> dict[str, str]:
    return session.get_modelmeta().custom_metadata_map


def predict(session: onnxruntime.InferenceSession, table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    kinds, inputs = json.loads(notes(session)["columns"]), {}
    for tensor in session.get_inputs():
        column, kind = table[tensor.name], kinds[tensor.name]
        if kind in ("text", "boolean"):
            values = column.astype("str").fillna("").to_numpy(object)
        elif kind == "date":
            values = (column.astype("datetime64[us]") - pd.Timestamp("1970-01-01").as_unit("us")).dt.total_seconds()
        else:
            values = column.to_numpy(np.float64, na_value=np.nan)
        dtype = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(string)": object}[tensor.type]
        inputs[tensor.name] = np.asarray(values).astype(dtype).reshape(-1, 1)
    label, p = session.run(None, inputs)
    return label, p

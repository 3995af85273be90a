"""Write a graph of ONNX operators as arithmetic on its tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from deepsep.errors import missing_package

ML_DOMAIN = "ai.onnx.ml"


class Graph:
    """Operators in the order in which they are computed.

    Declare the inputs first. Operands are tensors of the graph, or arrays, which become constants.
    """

    def __init__(self) -> None:
        try:
            self.onnx: Any = import_module("onnx")
        except ImportError as error:
            raise missing_package("the export to ONNX", "'deepsep[onnx]'") from error
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._names: set[str] = set()

    def input(self, name: str, dtype: type, width: int = 1) -> Tensor:
        """Declare an input of shape (rows, width)."""
        return self._declare(self.inputs, name, dtype, ("rows", width))

    def output(self, tensor: Tensor, name: str, dtype: type, *width: int) -> str:
        """Declare an output of shape (rows, *width), and return its name, which no input has."""
        while name in self._names:
            name += "_"
        self._declare(self.outputs, name, dtype, ("rows", *width))
        self.nodes.append(self.onnx.helper.make_node("Identity", [tensor.name], [name]))
        return name

    def op(self, kind: str, *operands: Any, domain: str = "", **attributes: Any) -> Tensor:
        """Return the result of an operator."""
        names = [self._operand(operand).name for operand in operands]
        result = self._new()
        self.nodes.append(self.onnx.helper.make_node(kind, names, [result.name], domain=domain, **attributes))
        return result

    def cast(self, tensor: Tensor, dtype: type) -> Tensor:
        """Return a tensor in another type."""
        return self.op("Cast", tensor, to=self._kind(dtype))

    def concat(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return matrices side by side."""
        return tensors[0] if len(tensors) == 1 else self.op("Concat", *tensors, axis=1)

    def gather(self, tensor: Any, index: Any, axis: int = 0) -> Tensor:
        """Return parts of a tensor by their numbers."""
        return self.op("Gather", tensor, index, axis=axis)

    def to_bytes(self, name: str, notes: dict[str, str], version: str) -> bytes:
        """Return the checked model as a file."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML_DOMAIN, 2)]  # of 2022, for older runtimes
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=8, producer_name="deepsep", producer_version=version
        )
        helper.set_model_props(model, notes)
        self.onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())

    def _declare(self, where: list[Any], name: str, dtype: type, shape: Sequence[Any]) -> Tensor:
        where.append(self.onnx.helper.make_tensor_value_info(name, self._kind(dtype), shape))
        self._names.add(name)
        return Tensor(self, name)

    def _operand(self, operand: Any) -> Tensor:
        if isinstance(operand, Tensor):
            return operand
        constant, values = self._new(), np.asarray(operand)
        if values.dtype.kind in "OU":
            text = [str(value).encode() for value in values.ravel()]
            tensor = self.onnx.helper.make_tensor(constant.name, self._kind(str), values.shape, text)
        else:
            tensor = self.onnx.numpy_helper.from_array(values, constant.name)
        self.constants.append(tensor)
        return constant

    def _new(self) -> Tensor:
        n = len(self.nodes) + len(self.constants)
        while (name := f"t{n}") in self._names:  # a column may have this name
            n += 1
        self._names.add(name)
        return Tensor(self, name)

    def _kind(self, dtype: type) -> int:
        kinds: dict[type, str] = {
            str: "STRING",
            bool: "BOOL",
            np.int64: "INT64",
            np.float32: "FLOAT",
            np.float64: "DOUBLE",
        }
        return int(getattr(self.onnx.TensorProto, kinds[dtype]))


def _arithmetic(kind: str) -> Callable[[Tensor, Any], Tensor]:
    """Return a method that applies an operator to a tensor and another operand."""
    return lambda tensor, other: tensor.graph.op(kind, tensor, other)


@dataclass(frozen=True)
class Tensor:
    """A tensor of a graph, with arithmetic. Integer division truncates."""

    graph: Graph
    name: str

    __add__ = _arithmetic("Add")
    __sub__ = _arithmetic("Sub")
    __mul__ = _arithmetic("Mul")
    __truediv__ = _arithmetic("Div")
    __mod__ = _arithmetic("Mod")
    __matmul__ = _arithmetic("MatMul")

"""Models in formats that other programs run."""

from __future__ import annotations

from deepsep.apps.onnx.onnx_file import export_onnx

__all__ = ["export_onnx"]

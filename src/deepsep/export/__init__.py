"""Models in formats that other programs run."""

from __future__ import annotations

from deepsep.export.onnx_file import export_onnx

__all__ = ["export_onnx"]

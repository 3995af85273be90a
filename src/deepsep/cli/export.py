"""``deepsep export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from deepsep.cli.command import command
from deepsep.cli.console import Console
from deepsep.cli.options import ModelFolder, option
from deepsep.cli.printed_lines import aligned
from deepsep.errors import ParameterError


@command()
def export(
    model: ModelFolder, output: Annotated[Path, option("--output, -o", "FILE", "An .onnx file.")], out: Console
) -> None:
    """Write a model as an ONNX file, which runs without Python.

    A committee is written as its student, a model of --method deepsep as it is, with the encoding of the table. Columns
    of free text cannot be written. It needs the package onnx.

    Example: deepsep export model -o student.onnx
    """
    if output.suffix.lower() != ".onnx":
        raise ParameterError(f"-o {output}: name a file that ends in .onnx.")

    from deepsep.apps.onnx import export_onnx
    from deepsep.model.table_model import load
    from deepsep.scoring.who_scores import student_of

    fitted = load(model)
    written = export_onnx(fitted, output)
    student = student_of(fitted)
    lines = [f"Wrote {output}."]
    if student is not None:
        lines[0] += (
            f" It is the student: on rows held out it agrees with the committee in {student.agreement_:.1%}, and "
            f"the rest costs about {100 * max(student.accuracy_loss_, 0):.1f} points of accuracy."
        )
    lines += ["", "Inputs, each of shape (rows, 1) unless it says otherwise:"]
    lines += aligned(written["inputs"])
    lines.append(f"Outputs: {', '.join(written['outputs'])}")
    out.result("\n".join(lines), {"file": output, **written})

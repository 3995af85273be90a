"""The report: how good a model is and what it predicts, as plain data and as one HTML file.

It is made in three steps: :func:`summarize` measures everything and returns a plain dictionary, the figures are drawn
from it, and :func:`render` puts both on a page. :func:`write_report` does all three. :func:`render_comparison` makes
a page from a comparison of methods, :func:`render_segments` one from the segments of a survey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

if TYPE_CHECKING:
    from deepsep.report.explanation import explain
    from deepsep.report.page import render, render_comparison, render_segments, write_report
    from deepsep.report.summary import summarize

__all__ = ["explain", "render", "render_comparison", "render_segments", "summarize", "write_report"]

_HOME = {
    "explain": "deepsep.report.explanation",
    "render": "deepsep.report.page",
    "render_comparison": "deepsep.report.page",
    "render_segments": "deepsep.report.page",
    "summarize": "deepsep.report.summary",
    "write_report": "deepsep.report.page",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)

"""The report: what a fit found and how far it can be trusted, as plain data and as one HTML file.

Three steps, each of which can be used alone: :func:`summarize` measures and returns a plain dictionary, the figures are
drawn from it, and :func:`render` puts both into a page. :func:`write_report` does all of it. :func:`render_comparison`
makes such a page of a comparison of methods alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

if TYPE_CHECKING:
    from deepsep.report.explanation import explain
    from deepsep.report.page import render, render_comparison, write_report
    from deepsep.report.summary import summarize

__all__ = ["explain", "render", "render_comparison", "summarize", "write_report"]

_HOME = {
    "explain": "deepsep.report.explanation",
    "render": "deepsep.report.page",
    "render_comparison": "deepsep.report.page",
    "summarize": "deepsep.report.summary",
    "write_report": "deepsep.report.page",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)

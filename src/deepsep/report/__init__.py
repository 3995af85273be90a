"""The report: what a fit found and how far it can be trusted, as plain data and as one HTML file.

Three steps, each of which can be used alone: :func:`summarize` measures and returns a plain dictionary, the figures are
drawn from it, and :func:`render` puts both into a page. :func:`write_report` does all of it. :func:`render_comparison`
makes such a page of a comparison of methods alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepsep.report._html import render, render_comparison, write_report
    from deepsep.report._summary import summarize

__all__ = ["render", "render_comparison", "summarize", "write_report"]

_HOME = {"render": "_html", "render_comparison": "_html", "summarize": "_summary", "write_report": "_html"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Public tables to try deepsep on, and a generator of survey-like populations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

if TYPE_CHECKING:
    from deepsep.datasets._make_survey import make_survey
    from deepsep.datasets._nhanes import load_nhanes
    from deepsep.datasets._packages import cache_folder
    from deepsep.datasets._public import list_tables, load_table
    from deepsep.datasets._ssl_book import load_ssl_book

__all__ = ["cache_folder", "list_tables", "load_nhanes", "load_ssl_book", "load_table", "make_survey"]

_HOME = {
    "cache_folder": "deepsep.datasets._packages",
    "list_tables": "deepsep.datasets._public",
    "load_nhanes": "deepsep.datasets._nhanes",
    "load_ssl_book": "deepsep.datasets._ssl_book",
    "load_table": "deepsep.datasets._public",
    "make_survey": "deepsep.datasets._make_survey",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)

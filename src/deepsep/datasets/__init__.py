"""Public tables to try deepsep on, and a generator of synthetic survey data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

if TYPE_CHECKING:
    from deepsep.datasets.foods import load_foods
    from deepsep.datasets.nhanes import load_nhanes
    from deepsep.datasets.packages import cache_folder
    from deepsep.datasets.public import list_tables, load_table
    from deepsep.datasets.ssl_book import load_ssl_book
    from deepsep.datasets.synthetic import make_survey

__all__ = ["cache_folder", "list_tables", "load_foods", "load_nhanes", "load_ssl_book", "load_table", "make_survey"]

_HOME = {
    "cache_folder": "deepsep.datasets.packages",
    "list_tables": "deepsep.datasets.public",
    "load_foods": "deepsep.datasets.foods",
    "load_nhanes": "deepsep.datasets.nhanes",
    "load_ssl_book": "deepsep.datasets.ssl_book",
    "load_table": "deepsep.datasets.public",
    "make_survey": "deepsep.datasets.synthetic",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)

"""Public tables to try deepsep on, and a generator of synthetic survey data."""

from deepsep.datasets.packages import cache_folder
from deepsep.datasets.public import list_tables, load_table
from deepsep.datasets.shipped import load_foods, load_nhanes
from deepsep.datasets.ssl_book import load_ssl_book
from deepsep.datasets.synthetic import make_survey

__all__ = ["cache_folder", "list_tables", "load_foods", "load_nhanes", "load_ssl_book", "load_table", "make_survey"]

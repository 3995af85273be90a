"""Load the public names of a package on first use, because importing them takes seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, home: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package; ``home`` has each public name's module."""

    def __getattr__(name: str) -> Any:
        own = sys.modules[package]
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(own.__all__)}")
        module = import_module(home[name])
        value = module if module.__name__ == f"{package}.{name}" else getattr(module, name)
        setattr(own, name, value)
        return value

    def __dir__() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return __getattr__, __dir__

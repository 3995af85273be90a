"""The frame of a command: its groups of options, the console that it prints to, and --help-all."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, get_type_hints

from deepsep.cli.console import console
from deepsep.cli.grouped_help import MANY_OPTIONS, HelpAll
from deepsep.cli.options import Debug, DecisionOptions, FitOptions, Json, Quiet, ReadingOptions, TrainingOptions


def command(*, without: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that makes a command of a function.

    A parameter of one of the groups becomes an option for each of its fields, except those in ``without``. ``out``
    becomes the options of the console, and the function runs in it.
    """
    kinds = (ReadingOptions, DecisionOptions, TrainingOptions, FitOptions)
    console_options = {"as_json": ("json", Json), "quiet": ("quiet", Quiet), "debug": ("debug", Debug)}

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(function, eval_str=True).parameters
        groups = {name: each.annotation for name, each in own.items() if each.annotation in kinds}
        printing = {key: option for key, option in console_options.items() if option[0] not in without}
        options = {name: _options(group, without) for name, group in groups.items()}
        options["out"] = [_flag(name, annotation) for name, annotation in printing.values()]
        parameters = [each for name, parameter in own.items() for each in options.get(name, [parameter])]
        if len(parameters) > MANY_OPTIONS:
            parameters.append(_flag("help_all", HelpAll))
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]

        @wraps(function)
        def run(help_all: bool = False, **given: Any) -> None:
            with console(**{key: given.pop(name) for key, (name, _) in printing.items()}) as out:
                values = {name: {each.name: given.pop(each.name) for each in options[name]} for name in groups}
                function(out=out, **given, **{name: _group(kind, values[name]) for name, kind in groups.items()})

        # typer reads these two:
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def _flag(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=False)


def _options(group: type, without: Collection[str]) -> list[inspect.Parameter]:
    """Return the options for the fields of a group; those about files come last in the help."""
    fields = dict(inspect.signature(group, eval_str=True).parameters)
    reading = _options(ReadingOptions, ()) if fields.pop("reading", None) else []
    return [field for name, field in fields.items() if name not in without] + reading


def _group(group: Any, given: dict[str, Any]) -> Any:
    if "reading" in get_type_hints(group):
        given["reading"] = _group(ReadingOptions, {name: given.pop(name) for name in get_type_hints(ReadingOptions)})
    return group(**given)

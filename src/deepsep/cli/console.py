"""What a command says, and where: results to standard output, all else to standard error, failures as exit codes."""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import typer

from deepsep.cli.words import in_options
from deepsep.errors import DeepSepError, DeepSepWarning, InterruptWarning

FAILURE, MISUSE, INTERRUPTED = 1, 2, 130
DEBUG = "DEEPSEP_DEBUG"


class Console:
    """Where a command's words go.

    Parameters
    ----------
    as_json : bool
        Whether the result is for a script: JSON alone on standard output.
    quiet : bool
        Whether to say nothing but the errors; with ``as_json``, nothing but these and the JSON.

    Attributes
    ----------
    warnings : list of str
        What deepsep warned of, each once.
    """

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.warnings: list[str] = []

    @property
    def shows_progress(self) -> bool:
        """Whether there is someone to watch a progress bar."""
        return not (self.quiet or self.as_json) and sys.stderr.isatty()

    def note(self, text: str) -> None:
        """Say what is going on."""
        if not self.quiet:
            typer.echo(text, err=True)

    def warn(self, text: str) -> None:
        """Say what the user should know about the result."""
        if text not in self.warnings:
            self.warnings.append(text)
            self.note(f"note: {text}")

    def result(self, text: str, content: Mapping[str, Any]) -> None:
        """Give the result: the text to a person, the content to a script."""
        if self.as_json:
            whole = {**content, "warnings": self.warnings}
            typer.echo(json.dumps(_plain(whole), indent=2, ensure_ascii=False, allow_nan=False))
        elif not self.quiet:
            typer.echo(text)

    def bar(self, doing: str, *, total: float) -> Any:
        """Return a progress bar with the time left, which shows up after two seconds, on a terminal only."""
        from tqdm import tqdm

        from deepsep.core.history import BAR

        return tqdm(total=total, desc=doing, bar_format=BAR, delay=2, disable=not self.shows_progress)

    @contextmanager
    def steps(self, doing: str) -> Iterator[Callable[[int, int, str], None]]:
        """Give a function that moves a progress bar: called with steps done, steps in all, and what comes next."""
        with self.bar(doing, total=1) as bar:

            def on_step(done: int, total: int, what: str) -> None:
                bar.total = total
                bar.set_description(f"{doing}, {what}", refresh=False)
                bar.update(done - bar.n)

            yield on_step

    @contextmanager
    def share(self, doing: str) -> Iterator[Callable[[int, float], None]]:
        """Give a function that moves a progress bar: called with rows done, and which share of all that is."""
        with self.bar(doing, total=1.0) as bar:
            bar.bar_format = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"

            def progress(rows: int, share: float) -> None:
                bar.set_postfix_str(f"{rows:,} rows", refresh=False)
                bar.update(share - bar.n)

            yield progress


@contextmanager
def console(*, as_json: bool = False, quiet: bool = False, debug: bool = False) -> Iterator[Console]:
    """Run a command: its warnings become notes, and its errors one message and an exit code.

    ==== ======================================================================
    0    it worked
    1    it failed, and not for the user's doing: disk, memory, a missing extra
    2    the options or the data do not allow it
    130  Ctrl-C
    ==== ======================================================================
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name of a class must not fail on a terminal of few characters
            stream.reconfigure(errors="replace")
    out = Console(as_json=as_json, quiet=quiet)
    try:
        with warnings.catch_warnings():
            if not debug:
                warnings.simplefilter("ignore")
            warnings.simplefilter("always", DeepSepWarning)
            warnings.simplefilter("error", InterruptWarning)  # a fit that was cut short is not saved
            warnings.showwarning = _show(out)
            yield out
    except (KeyboardInterrupt, InterruptWarning) as error:
        raise _end(error, "Interrupted. Nothing was written.", INTERRUPTED, debug) from None
    except (typer.Exit, typer.BadParameter):
        raise
    except DeepSepError as error:
        raise _end(error, in_options(error), MISUSE, debug) from None
    except BrokenPipeError:  # the reader has gone, as in "deepsep methods | head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILURE) from None
    except ImportError as error:
        raise _end(error, str(error), FAILURE, debug) from None
    except MemoryError as error:
        message = "There is not enough memory. Take a sample of the rows, or leave out columns with --drop."
        raise _end(error, message, FAILURE, debug) from None
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        message = f"{place}{error.strerror or error}. Check the path, the rights and the disk."
        raise _end(error, message, FAILURE, debug) from None
    except Exception as error:
        message = (
            f"Something unexpected happened ({type(error).__name__}: {error}). This is a bug in deepsep: please report "
            "it with what the same command prints with --debug."
        )
        raise _end(error, message, FAILURE, debug) from None


def _end(error: BaseException, message: str, code: int, debug: bool) -> typer.Exit:
    """Say why, and return what ends the command."""
    if debug or os.environ.get(DEBUG):
        traceback.print_exception(error)
    typer.echo(f"Error: {message}", err=True)
    return typer.Exit(code)


def _show(out: Console) -> Any:
    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, DeepSepWarning):
            out.warn(in_options(message))
        else:
            typer.echo(warnings.formatwarning(message, category, filename, lineno, line), err=True, nl=False)

    return show


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: numbers of NumPy as numbers, NaN and infinity as null, paths as text."""
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if value - value == 0 else None
    return value if value is None or isinstance(value, str | int) else str(value)

"""Print results to standard output and everything else to standard error, and turn errors into exit codes."""

from __future__ import annotations

import json
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from typing import Any

import typer

from deepsep.cli.words import in_options
from deepsep.errors import DatabaseError, DeepSepError, DeepSepWarning, InterruptWarning


class ExitCode(IntEnum):
    """Ways in which a command ends."""

    FAILURE = 1  # beyond the user's control: disk, memory, a database, a missing extra
    MISUSE = 2  # invalid options or data
    DRIFT = 3  # the rows differ from the training table (``score --fail-on-drift``)
    PARTS = 4  # some parts of a folder could not be read (``score``)
    INTERRUPTED = 130  # Ctrl-C


class Console:
    """Prints what a command has to say; with ``as_json`` only the result on standard output, as JSON.

    ``quiet`` leaves out all but errors and that JSON; ``warnings`` are the distinct ones so far.
    """

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.warnings: list[str] = []

    @property
    def shows_progress(self) -> bool:
        """Whether to show progress bars: on a terminal, unless quiet or JSON."""
        return not (self.quiet or self.as_json) and sys.stderr.isatty()

    @property
    def command(self) -> str:
        """The command, as it was typed."""
        return shlex.join(["deepsep", *sys.argv[1:]])

    def note(self, message: object) -> None:
        """Print a message about what is going on; a progress bar makes room for it."""
        if self.quiet:
            return
        text = in_options(message)
        with sys.modules["tqdm"].tqdm.external_write_mode() if "tqdm" in sys.modules else nullcontext():
            typer.echo(text, err=True)

    def warn(self, text: str) -> None:
        """Print a warning about the result, once."""
        if text not in self.warnings:
            self.warnings.append(text)
            self.note(f"note: {text}")

    def result(self, text: str, content: Mapping[str, Any]) -> None:
        """Print the result: the text, or the content as JSON."""
        if self.as_json:
            whole = {**content, "warnings": self.warnings}
            typer.echo(json.dumps(_to_json(whole), indent=2, ensure_ascii=False, allow_nan=False))
        elif not self.quiet:
            typer.echo(text)

    def bar(self, doing: str, *, total: float, smoothing: float = 0.3) -> Any:
        """Return a progress bar with the remaining time, which appears after two seconds, on a terminal only.

        ``smoothing`` is from 0, the mean speed so far, to 1, the speed of the last step.
        """
        from tqdm import tqdm

        from deepsep.core.history import BAR_FORMAT

        return tqdm(
            total=total,
            desc=doing,
            bar_format=BAR_FORMAT,
            delay=2,
            smoothing=smoothing,
            disable=not self.shows_progress,
        )

    def share_bar(self, doing: str) -> Any:
        """Return a progress bar that counts from 0 to 1, with the remaining time by the mean speed so far."""
        bar = self.bar(doing, total=1.0, smoothing=0)
        bar.bar_format = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
        return bar

    @contextmanager
    def steps(self, doing: str) -> Iterator[Callable[[int, int, str], None]]:
        """Yield a function that updates a progress bar, called with steps done, total steps, and what comes next."""
        with self.bar(doing, total=1) as bar:

            def on_step(done: int, total: int, what: str) -> None:
                bar.total = total
                bar.set_description(f"{doing}, {what}", refresh=False)
                bar.update(done - bar.n)

            yield on_step

    @contextmanager
    def share(self, doing: str) -> Iterator[Callable[[int, float], None]]:
        """Yield a function that updates a progress bar, called with rows done and the share of all rows."""
        with self.share_bar(doing) as bar:

            def progress(rows: int, share: float) -> None:
                bar.set_postfix_str(f"{rows:,} rows", refresh=False)
                bar.update(share - bar.n)

            yield progress


@contextmanager
def console(*, as_json: bool = False, quiet: bool = False, debug: bool = False) -> Iterator[Console]:
    """Run a command: its warnings become notes, and an error becomes one message and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a class name must not fail on a terminal with a small character set
            stream.reconfigure(errors="replace")
    out = Console(as_json=as_json, quiet=quiet)
    try:
        with warnings.catch_warnings():
            if not debug:
                warnings.simplefilter("ignore")
            warnings.simplefilter("always", DeepSepWarning)
            warnings.simplefilter("error", InterruptWarning)  # an interrupted fit is not saved
            warnings.showwarning = _show(out)
            yield out
    except (KeyboardInterrupt, InterruptWarning) as error:
        said = str(error) if isinstance(error, KeyboardInterrupt) else ""
        raise _end(error, said or "Interrupted. Nothing was written.", ExitCode.INTERRUPTED, debug) from None
    except (typer.Exit, typer.BadParameter):
        raise
    except DatabaseError as error:
        raise _end(error, in_options(error), ExitCode.FAILURE, debug) from None
    except DeepSepError as error:
        raise _end(error, in_options(error), ExitCode.MISUSE, debug) from None
    except BrokenPipeError:  # the reader has closed the pipe, as in "deepsep methods | head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(ExitCode.FAILURE) from None
    except ImportError as error:
        raise _end(error, str(error), ExitCode.FAILURE, debug) from None
    except MemoryError as error:
        message = "There is not enough memory. Take a sample of the rows, or leave out columns with --drop."
        raise _end(error, message, ExitCode.FAILURE, debug) from None
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        message = f"{place}{error.strerror or error}. Check the path, the permissions and the disk."
        raise _end(error, message, ExitCode.FAILURE, debug) from None
    except Exception as error:
        message = (
            f"Something unexpected happened ({type(error).__name__}: {error}). This is a bug in deepsep: please report "
            "it with the output of the same command with --debug."
        )
        raise _end(error, message, ExitCode.FAILURE, debug) from None


def _end(error: BaseException, message: str, code: ExitCode, debug: bool) -> typer.Exit:
    """Print the message, and return the exception that ends the command."""
    debug_variable = "DEEPSEP_DEBUG"
    if debug or os.environ.get(debug_variable):
        traceback.print_exception(error)
    typer.echo(f"Error: {message}", err=True)
    return typer.Exit(code)


def _show(out: Console) -> Any:
    """Return the function that Python calls with a warning."""

    def show(message: Warning | str, category: type[Warning], *where: Any, **_: Any) -> None:
        if issubclass(category, DeepSepWarning):
            out.warn(in_options(message))
        else:
            typer.echo(warnings.formatwarning(message, category, *where[:2]), err=True, nl=False)

    return show


def _to_json(value: Any) -> Any:
    """Convert a value to JSON types: NumPy's numbers to numbers, NaN and infinity to null, paths to text."""
    if isinstance(value, Mapping):
        return {str(_to_json(key)): _to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if hasattr(value, "tolist"):
        return _to_json(value.tolist())
    if isinstance(value, float):
        return value if value - value == 0 else None
    return value if value is None or isinstance(value, str | int) else str(value)

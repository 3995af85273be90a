"""``python -m deepsep``, and the command ``deepsep``."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line; Ctrl-C also ends in one sentence while modules are imported."""
    try:
        from deepsep.cli import app

        app(prog_name="deepsep")
    except KeyboardInterrupt:
        sys.stderr.write("Error: Interrupted. Nothing was written.\n")
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt but the end of the interpreter


if __name__ == "__main__":
    main()

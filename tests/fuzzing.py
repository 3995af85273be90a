"""Damage files at random, and try what reads them in processes of their own, which may crash."""

import os
import resource
import signal
import warnings
from collections.abc import Callable, Iterable
from random import Random

from deepsep.errors import DeepSepError

ADDRESS_SPACE, SECONDS = 8 << 30, 60
NUMBERS = (0, 1, 127, 128, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1)


def damaged(data: bytes, seed: object) -> bytes:
    """Return bytes with some of them changed, removed, repeated, or cut off.

    Half of the places are near the end, where Parquet, Feather and zip files say where everything is.
    """
    rng, out = Random(str(seed)), bytearray(data)
    near_the_end = 600
    action = rng.random()
    if action < 0.7:
        for _ in range(rng.choice([1, 1, 2, 4, 16])):
            last = len(out) - 1
            where = rng.randrange(len(out)) if rng.random() < 0.5 else last - int(rng.expovariate(1 / near_the_end))
            where = max(where, 0)
            out[where] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256), out[where] ^ (1 << rng.randrange(8))])
    elif action < 0.85:
        start = rng.randrange(len(out))
        piece = out[start : start + rng.randrange(1, 64)]
        out[start : start + len(piece)] = b"" if rng.random() < 0.5 else piece + piece
    elif action < 0.93:
        start, size = rng.randrange(len(out)), rng.choice([4, 8])
        out[start : start + size] = rng.choice(NUMBERS).to_bytes(size, "little")
    else:
        del out[rng.randrange(len(out)) :]
    return bytes(out)


def problems(
    trial: Callable[[int], object],
    seeds: Iterable[int],
    allowed: tuple[type[Exception], ...] = (DeepSepError, MemoryError),
) -> list[str]:
    """Return the seeds for which a trial neither succeeds nor raises an allowed error, with what happened.

    The trials run in a child, one after the other, until one ends it; another child runs those after it.
    """
    found, waiting = [], list(seeds)
    while waiting:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _run(trial, waiting, writer, allowed)
        os.close(writer)
        with os.fdopen(reader, errors="replace") as lines:
            done = 0
            for line in lines:
                if line.startswith("@"):
                    done += 1
                else:
                    found.append(f"seed {waiting[done - 1]}: {line.strip()}")
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            found.append(f"seed {waiting[done - 1]}: {signal.Signals(os.WTERMSIG(status)).name}")
        elif done < len(waiting):
            found.append(f"seed {waiting[done - 1]}: exit code {os.WEXITSTATUS(status)}")
        del waiting[: max(done, 1)]
    return found


def _run(trial: Callable[[int], object], seeds: list[int], writer: int, allowed: tuple[type[Exception], ...]) -> None:
    """Run the trials, write their numbers and what went wrong, and end this process."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    for seed in seeds:
        os.write(writer, b"@\n")
        signal.alarm(SECONDS)
        try:
            trial(seed)
        except allowed:
            pass
        except BaseException as error:
            what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            os.write(writer, f"{what}\n".encode(errors="replace"))
    os._exit(0)

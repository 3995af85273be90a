"""For the benchmarks that kill programs: end one at a chosen moment, and compare what its next run wrote."""

import signal
import subprocess
import time
from itertools import islice


def kill_after_lines(command, lines, wait):
    """Kill a program some seconds after it has printed one line more than these, and return that line."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        line = next(islice(child.stdout, lines, None), "")
        time.sleep(wait)
        child.kill()
    assert child.returncode == -signal.SIGKILL
    return line.strip()


def kill_after_seconds(command, seconds, has_begun):
    """Kill a program so long after ``has_begun(process number)``, or let it end; return if it was killed, and when."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        while child.poll() is None and not has_begun(child.pid):
            time.sleep(0.005)
        begun = time.perf_counter()
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
    assert child.returncode in (0, -signal.SIGKILL), child.returncode
    return child.returncode != 0, time.perf_counter() - begun


def differences(whole, found):
    """Compare rows with those of an undisturbed run, by ``id``: rows that are lost, there twice, or different."""
    both = whole.merge(found.drop_duplicates("id"), on="id", suffixes=("", " found"))
    others = [column for column in whole if column != "id"]
    differ = sum((both[column] != both[f"{column} found"]).to_numpy() for column in others) > 0
    return {
        "lost": int((~whole["id"].isin(found["id"])).sum()),
        "twice": int(found["id"].duplicated().sum()),
        "different": int(differ.sum()),
    }

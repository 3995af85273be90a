"""A labelling page for tests: a small table, its server in a thread of this process, and a client of HTTP."""

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deepsep.apps.label.answer_file import Answers
from deepsep.apps.label.refit import Background
from deepsep.apps.label.server import Server
from deepsep.apps.label.session import Session


def small_table(n: int = 60) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    """Rows, their identifiers, and the classes that they show."""
    rng = np.random.default_rng(0)
    truth = pd.Series(np.array(["gold", "blue"], object)[rng.integers(0, 2, n)])
    noise = rng.normal(0, 1, (n, 2))
    X = pd.DataFrame({"noise": noise[:, 0], "spent": np.where(truth == "gold", 3.0, -3.0) + noise[:, 1]})
    return X, pd.Series([f"c{i:04d}" for i in range(n)], name="customer"), truth


def new_session(file: Path, X: pd.DataFrame, ids: pd.Series, y: Any = None, **settings: Any) -> Session:
    known = pd.Series([None] * len(X), dtype=object) if y is None else y
    settings = {"classes": ["gold", "blue"], **settings}
    return Session(X, known, ids, Answers(file, str(ids.name), "segment"), **settings)


@contextlib.contextmanager
def serving(session: Session) -> Iterator[Server]:
    server = Server(session)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()
        if isinstance(session.refits, Background):
            session.refits.stop()


def ask(server: Server, path: str, body: Any = None, *, raw: bool = False, **headers: str | None) -> tuple[int, Any]:
    """Return status and content of an answer. Headers may be replaced, or left out with None."""
    host = f"127.0.0.1:{server.port}"
    usual: dict[str, str | None] = {"Host": host}
    if body is not None:
        usual |= {"Origin": f"http://{host}", "Content-Type": "application/json"}
    given = usual | {name.replace("_", "-"): value for name, value in headers.items()}
    data = b"" if body is None else body if raw else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.putrequest("GET" if body is None else "POST", path, skip_host=True)
    for name, value in given.items():
        if value is not None:
            connection.putheader(name, value)
    if body is not None:
        connection.putheader("Content-Length", str(len(data)))
    connection.endheaders(data or None)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, json.loads(content) if "json" in (response.headers["content-type"] or "") else content

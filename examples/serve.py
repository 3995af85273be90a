"""Answer questions about rows over HTTP, with a model that ``deepsep fit`` wrote.

MODEL=model uvicorn serve:app
"""

import os
from collections import deque
from typing import Annotated

import pandas as pd
from fastapi import Body, FastAPI, Response
from fastapi.responses import JSONResponse

from deepsep import __version__, load
from deepsep.errors import DataError
from deepsep.scoring import compare_with_training, score_frame

MOST_ROWS = 10_000  # in a request
RECENT = 5_000  # rows that are compared with the training table

Cell = bool | int | float | str | None
Rows = Annotated[list[dict[str, Cell]], Body(min_length=1, max_length=MOST_ROWS)]


def make_app(folder: str, *, fast: bool = False) -> FastAPI:
    model = load(folder)  # once: every hash is checked, and no code of the folder runs
    known = set(model[0].feature_names_in_)
    recent: deque[dict[str, Cell]] = deque(maxlen=RECENT)
    app = FastAPI(title=f"deepsep: {model.provenance_['name']}")

    @app.exception_handler(DataError)
    def refuse(_, error: DataError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    @app.get("/health")
    def health() -> dict:
        return {"deepsep": __version__, "model": model.provenance_, "columns": model[0].schema_}

    @app.get("/drift")
    def drift() -> dict:
        if not recent:
            return {"rows": 0, "drifted": False, "notices": []}
        found = compare_with_training(model, pd.DataFrame(list(recent)))
        return {name: found[name] for name in ("rows", "drifted", "notices")}

    @app.post("/predict")
    def predict(rows: Rows, response: Response) -> list[dict]:
        unknown = sorted({name for row in rows for name in row} - known)
        if unknown:
            raise DataError(f"the model does not know the columns {unknown}. It takes {list(model[0].schema_)}.")
        scored = score_frame(model, pd.DataFrame(rows), fast=fast).drop(columns="row")
        recent.extend(rows)
        response.headers["X-Model"] = model.provenance_["sha256"]
        return scored.to_dict("records")

    return app


if "MODEL" in os.environ:
    app = make_app(os.environ["MODEL"], fast=bool(os.environ.get("FAST")))

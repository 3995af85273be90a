"""Tables of predictions in a database: a transaction per batch, and a record of what was written by which model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from deepsep.apps.sql.drivers import Connection, literal, quoted
from deepsep.errors import DataError, DeepSepError, Setting
from deepsep.scoring.writer import result_schema

SMALL_TYPES = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}  # types that drivers know
KEYS_PER_QUERY = 5_000  # keys that a query asks about at a time


@dataclass(frozen=True)
class Record:
    """Record of a table of predictions."""

    model: dict[str, Any]
    settings: dict[str, Any]


class ScoresTable:
    """A table of predictions, with the column of keys ``id``; its name may be "schema.table".

    ``record`` is about the model that wrote it, None without a table; ``rows`` is the number of rows that this run has
    written, and ``last_key`` the last of their keys.
    """

    def __init__(self, connection: Connection, name: str, id: str) -> None:
        records = "deepsep_scores"  # a table with a row about each table of predictions
        self.connection, self.name, self.id = connection, name, id
        self.path = tuple(name.split("."))
        if not all(self.path) or len(self.path) > 2 or self.path[-1].lower() == records:
            raise DataError(
                "{to} names no table for predictions. Write a name such as scores, or schema.scores.",
                to=Setting("to", name),
            )
        self.place = ".".join(map(quoted, self.path))
        self.rows = 0
        self.last_key: Any = None
        self._replace = False
        self._record_path = (*self.path[:-1], records)
        self._records = ".".join(map(quoted, self._record_path))
        self._about = f"table_name = {literal(self.path[-1])}"
        self._schema: Any = None
        self.record = self._read_record()

    def _read_record(self) -> Record | None:
        """Return what wrote the table; wait for the last transaction of a run that was killed."""
        if not self.connection.has_table(self.path):
            return None
        found: list[tuple[Any, ...]] = []
        if self.connection.has_table(self._record_path):
            self.connection.wait_for(self._records, self._about)
            self.connection.commit()
            found = self.connection.fetch(f"select model, settings from {self._records} where {self._about}")
        self.connection.commit()
        if not found:
            raise DataError(
                f"the table {self.name} exists, and deepsep did not write it. Name another one with {{to}}.",
                to=Setting("to"),
            )
        model, settings = found[0]
        return Record(json.loads(model), json.loads(settings))

    @property
    def goes_on(self) -> bool:
        """Whether rows are added to those that the table has."""
        return self.record is not None and not self._replace

    def describe(self, model: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        """Say who writes; raise if the table was written by another model, or with other settings."""
        same = ("sha256", "training_data", "method", "deepsep")  # of the provenance of a model
        self._model, self._settings = json.dumps(model), json.dumps(settings)
        if self.record is None or self._replace:
            return
        what = None
        if any(self.record.model.get(key) != model.get(key) for key in same):
            what = f"another model, {self.record.model['name']} of {str(self.record.model['created'])[:16]}"
        elif self.record.settings != (wanted := json.loads(json.dumps(settings))):
            names = [name for name in wanted if self.record.settings.get(name) != wanted[name]]
            what = f"other settings: {', '.join(names)}"
        if what:
            raise DataError(
                f"the table {self.name} was scored by {what}. Name another one with {{to}}, or replace it with "
                "{replace}.",
                to=Setting("to"),
                replace=Setting("replace", True),
            )

    def begin(self, key: str, *, replace: bool) -> None:
        """Set the type of the keys, as the system calls it, and whether to replace the table."""
        self._key, self._replace = key, replace

    def check_creatable(self) -> None:
        """Raise if the table, which does not exist, cannot be created; nothing stays of the attempt."""
        try:
            self.connection.execute(f"create table {self.place} (probe {self.connection.types[pa.int64()]})")
        finally:
            with suppress(DeepSepError):
                self.connection.rollback()

    def count(self) -> int:
        """Return how many rows there are already, of those that stay."""
        if not self.goes_on:
            return 0
        count: int = self.connection.fetch(f"select count(*) from {self.place}")[0][0]
        self.connection.commit()
        return count

    def are_known(self, keys: Sequence[Any]) -> NDArray[np.bool_]:
        """Return which of these keys the table has."""
        name, known = quoted(self.id), set()
        for start in range(0, len(keys), KEYS_PER_QUERY):
            piece = keys[start : start + KEYS_PER_QUERY]
            some = ", ".join(str(key) if isinstance(key, int) else literal(str(key)) for key in piece)
            found = self.connection.fetch(f"select cast({name} as text) from {self.place} where {name} in ({some})")
            known |= {key for (key,) in found}
        self.connection.commit()
        return np.array([str(key) in known for key in keys], bool)

    @property
    def untouched(self) -> bool:
        """Whether this run has not written to it."""
        return self._schema is None

    def write(self, frame: pd.DataFrame, types: Mapping[str, Any]) -> None:
        """Write rows, sorted by their keys, in one transaction: all of them or none.

        ``types`` are the Arrow types of columns that the first rows do not determine.
        """
        table, first = pa.Table.from_pandas(frame, preserve_index=False), self.untouched
        if first:
            schema = result_schema(table.schema, types)
            self._schema = pa.schema([(each.name, SMALL_TYPES.get(each.type, each.type)) for each in schema])
        try:
            table = table.cast(self._schema)
        except pa.ArrowInvalid as error:
            raise DataError(
                f"the rows do not fit into the columns of the table {self.name}: {error}. Name another table with "
                "{to}, or replace it with {replace}.",
                to=Setting("to"),
                replace=Setting("replace", True),
            ) from None
        keys = table[self.id].combine_chunks()
        try:
            if first:
                self._create(table.schema)
            if len(keys):
                last = literal(str(keys[-1].as_py()))
                change = f"rows = rows + {len(keys)}, last_key = {last}"
                self.connection.execute(f"update {self._records} set {change} where {self._about}")
                self.connection.append(self.path, table)
            self.connection.commit()
        except BaseException:
            with suppress(DeepSepError):  # where the connection is cut, the server does it
                self.connection.rollback()
            raise
        if len(keys):
            self.rows, self.last_key = self.rows + len(keys), keys[-1].as_py()

    def _create(self, schema: Any) -> None:
        """Create the table and its record, in the transaction of the first batch."""
        connection = self.connection
        text, whole = connection.types[pa.string()], connection.types[pa.int64()]
        if not connection.has_table(self._record_path):
            columns = f"model {text}, settings {text}, rows {whole}, last_key {text}, drift {text}"
            connection.execute(f"create table {self._records} (table_name {text} primary key, {columns})")
        if self.record is not None and not self._replace:
            return
        self._check_names(schema.names)
        if self.record is not None:
            connection.execute(f"drop table {self.place}")
        own = [f"{quoted(self.id)} {self._key} primary key"]
        own += [f"{quoted(field.name)} {connection.types[field.type]}" for field in schema if field.name != self.id]
        connection.execute(f"create table {self.place} ({', '.join(own)})")
        connection.execute(f"delete from {self._records} where {self._about}")
        values = ", ".join(map(literal, (self.path[-1], self._model, self._settings)))
        connection.execute(f"insert into {self._records} (table_name, model, settings, rows) values ({values}, 0)")

    def _check_names(self, names: list[str]) -> None:
        connection = self.connection
        long = [name for name in names if len(name.encode()) > connection.longest_name]
        if long:
            raise DataError(
                f"the column {long[0]!r} has too long a name for {connection.place}: {connection.longest_name} bytes "
                "are allowed. Give the class a shorter name, or write a file instead."
            )
        folded = [name.lower() for name in names]
        same = [name for name in names if folded.count(name.lower()) > 1]
        if connection.any_case and same:
            raise DataError(
                f"the columns {' and '.join(map(repr, same[:2]))} differ in case only, which {connection.place} cannot "
                "tell apart. Rename a class, or write a file instead."
            )

    def finish(self, drift: Mapping[str, Any] | None) -> None:
        """Record how the rows of this run differ from the training table."""
        self.connection.execute(f"update {self._records} set drift = {literal(json.dumps(drift))} where {self._about}")
        self.connection.commit()

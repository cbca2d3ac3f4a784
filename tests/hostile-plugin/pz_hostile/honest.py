"""A connector that keeps the rules: entities are files of Arrow rows in a folder. Its parts are there to be broken."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from pz_core.contract import (
    Capabilities,
    CheckReport,
    ConnectorError,
    NativeScan,
    Option,
    OptionSet,
    Partition,
    Receipt,
    option_set,
)
from pz_core.values import Column, duckdb_type, quote_identifier

COLUMNS = b"pz.columns"


class Session:
    """One write: beside the target first, then in its place."""

    def __init__(self, subject: str, file: Path, columns: tuple[Column, ...], keep: bool) -> None:
        self.subject, self.file, self.columns = subject, file, columns
        self.keep = keep and file.exists()
        self.beside = self.place_aside()
        self.writer: Any = None
        self.rows = self.batches = 0
        self.ended = False

    def place_aside(self) -> Path:
        return self.file.with_name(f".{self.file.stem[:100]}-{os.urandom(8).hex()}.tmp")

    def write(self, batch: Any) -> None:
        self.refuse_ended()
        batch = self.changed(batch)
        if self.writer is None:
            self.begin(batch.schema)
        self.writer.write_batch(batch)
        self.rows += batch.num_rows
        self.batches += 1

    def changed(self, batch: Any) -> Any:
        return batch

    def commit(self) -> Receipt:
        self.refuse_ended()
        if self.writer is None and not self.keep:
            self.begin(arrow_schema(self.columns))
        self.ended = True
        if self.writer is not None:
            self.writer.close()
            self.beside.replace(self.file)
        return Receipt(self.rows, self.batches)

    def abort(self) -> None:
        self.ended = True
        if self.writer is not None:
            self.writer.close()
        self.beside.unlink(missing_ok=True)

    def begin(self, schema: Any) -> None:
        import pyarrow as pa

        told = json.dumps([[column.name, column.type] for column in self.columns]).encode()
        made = pa.schema([pa.field(field.name, field.type) for field in schema], {COLUMNS: told})
        self.file.parent.mkdir(parents=True, exist_ok=True)
        old = self.old_batches() if self.keep else []
        self.writer = pa.ipc.new_stream(str(self.beside), old[0].schema if old else made)
        for batch in old:
            self.writer.write_batch(batch)

    def old_batches(self) -> list[Any]:
        import pyarrow as pa

        with pa.ipc.open_stream(self.file.read_bytes()) as old:
            if stored_columns(old.schema) != self.columns:
                raise ConnectorError(f"{self.subject}: other columns are there", code="PZ0804", hint="use replace")
            return [batch for batch in old if batch.num_rows]

    def refuse_ended(self) -> None:
        if self.ended:
            raise ConnectorError(f"{self.subject}: the write has ended", hint="a session ends once")


class Sink:
    """An open folder."""

    session: ClassVar[type[Session]] = Session

    def __init__(self, connector: Any) -> None:
        self.connector = connector

    def native_write(self, spec: Any) -> None:
        return None

    def begin(self, spec: Any, columns: tuple[Column, ...]) -> Session:
        subject = f"{self.connector.connection.name}.{spec.entity}"
        return self.session(subject, self.connector.file(spec.entity), columns, self.keeps(spec))

    def keeps(self, spec: Any) -> bool:
        return bool(spec.load_mode == "add")

    def abort_semantics(self) -> str:
        return "discards_all"

    def close(self) -> None:
        pass


class Source:
    """An open folder."""

    def __init__(self, connector: Any) -> None:
        self.connector = connector

    def natural_shape(self, spec: Any) -> str:
        return "full"

    def schema(self, spec: Any) -> tuple[Column, ...]:
        with self.open(spec) as reader:
            return self.chosen(spec, reader.schema)

    def native_scan(self, spec: Any) -> NativeScan | None:
        return None

    def partitions(self, spec: Any) -> tuple[Partition, ...]:
        return (Partition(),)

    def read(self, spec: Any, partition: Partition, batch_rows: int) -> Any:
        import pyarrow as pa

        with self.open(spec) as reader:
            names = [column.name for column in self.chosen(spec, reader.schema)]
            yielded = False
            for batch in reader:
                for start in range(0, batch.num_rows, batch_rows):
                    yielded = True
                    yield self.changed(batch.slice(start, batch_rows).select(names), spec)
            if not yielded:
                yield pa.RecordBatch.from_pylist([], schema=reader.schema).select(names)

    def changed(self, batch: Any, spec: Any) -> Any:
        return batch

    def open(self, spec: Any) -> Any:
        import pyarrow as pa

        subject = f"{self.connector.connection.name}.{spec.entity}"
        try:
            return pa.ipc.open_stream(self.connector.file(spec.entity).read_bytes())
        except FileNotFoundError:
            raise ConnectorError(f"{subject} is not there", code="PZ0353", hint="write it first") from None
        except OSError as error:
            raise ConnectorError(f"{subject}: {error.strerror}", hint="correct folder:", cause=error) from error

    def chosen(self, spec: Any, schema: Any) -> tuple[Column, ...]:
        there = {column.name: column for column in stored_columns(schema)}
        for name, word in (spec.columns or {}).items():
            if name not in there or there[name].type != duckdb_type(word):
                raise ConnectorError(f"column '{name}' is no {word}", code="PZ0353", hint="declare it as it is")
        return tuple(there[name] for name in (spec.columns or there))

    def close(self) -> None:
        pass


class Connector:
    """A folder."""

    name: ClassVar[str] = "hostile_honest"
    testkit: ClassVar[str] = "pz_hostile.kit:HonestSuite"
    connection_options: ClassVar[OptionSet] = option_set(
        Option("folder", "string", "where the files are", required=True),
        Option("password", "string", "who knows", secret=True),
    )
    read_options: ClassVar[OptionSet] = option_set()
    write_options: ClassVar[OptionSet] = option_set()
    capabilities: ClassVar[Capabilities] = Capabilities(
        reads=True,
        universal_read=True,
        universal_write=True,
        load_modes=frozenset({"add", "swap"}),
        schema_policies=frozenset({"fail_on_change"}),
        transactional=True,
    )
    source: ClassVar[type[Source]] = Source
    sink: ClassVar[type[Sink]] = Sink

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.folder = Path(connection.base_dir) / str(connection.options.get("folder", ""))

    def validate(self) -> tuple[Any, ...]:
        return ()

    def validate_read(self, spec: Any) -> tuple[Any, ...]:
        return self.name_faults(spec.entity)

    def validate_write(self, spec: Any) -> tuple[Any, ...]:
        return self.name_faults(spec.entity)

    def name_faults(self, entity: str) -> tuple[Any, ...]:
        if len(self.file(entity).name.encode()) <= 200:
            return ()
        return (ConnectorError(f"{entity}: too long a name", code="PZ0353", hint="choose a shorter one"),)

    def check(self) -> CheckReport:
        if self.folder.exists() and not self.folder.is_dir():
            return CheckReport(False, f"{self.folder} is no folder", "point folder: at a folder")
        return CheckReport(True, f"{self.folder} can be used")

    def open_source(self) -> Source:
        return self.source(self)

    def open_sink(self) -> Sink:
        return self.sink(self)

    def file(self, entity: str) -> Path:
        return self.folder / f"{quote(entity, safe=' ')}.arrows"


def stored_columns(schema: Any) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name, kind in json.loads(schema.metadata[COLUMNS]))


def arrow_schema(columns: tuple[Column, ...]) -> Any:
    import duckdb

    fields = ", ".join(f"CAST(NULL AS {column.type}) AS {quote_identifier(column.name)}" for column in columns)
    with duckdb.connect() as database:
        database.execute("SET arrow_lossless_conversion = true")
        return database.execute(f"SELECT {fields} LIMIT 0").to_arrow_table().schema

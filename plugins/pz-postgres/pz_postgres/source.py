"""Reading a table or a query: by the engine's DuckDB, or in record batches through one of our own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pz_core.contract.connector import ConnectorError, NativeScan, Partition, ReadShape, ReadSpec
from pz_core.contract.extensions import planned_loading
from pz_core.values import Column, quote_identifier, quote_literal, quote_path
from pz_postgres.catalog import PgTable, describe_query
from pz_postgres.control import connect, connected
from pz_postgres.filters import bounds_of, pushed
from pz_postgres.local import LOCAL, faults, stream
from pz_postgres.looking import look_at
from pz_postgres.names import TableName
from pz_postgres.partitions import condition_of, partitions_of
from pz_postgres.reading import Rule, rules_of, scan, shared_scan, told_forms
from pz_postgres.settings import EXTENSION, Settings

if TYPE_CHECKING:
    import duckdb
    import psycopg
    import pyarrow as pa

    from pz_postgres.capture import CapturedRead


#: For the plan, which cannot know the types.
_RULE = "each column in binary form where that is exact for its type, else as text or in another exact form"


class TableSource:
    """Tables and queries of one database, open for one attempt."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._alias = settings.alias("read")
        self._own_alias = LOCAL.unique(self._alias)
        self._known: dict[tuple[str, str | None], PgTable] = {}
        self._attached: dict[str, str] = {}
        self._lock = threading.Lock()
        self._database: duckdb.DuckDBPyConnection | None = None
        self._cursors: set[duckdb.DuckDBPyConnection] = set()
        self._snapshot: psycopg.Connection[Any] | None = None
        self._capture: CapturedRead | None = None

    def natural_shape(self, spec: ReadSpec) -> ReadShape:
        """Always all there is; changes are captured only where the project asks for it."""
        return "full"

    def schema(self, spec: ReadSpec) -> tuple[Column, ...]:
        """Columns that the read yields."""
        return tuple(Column(r.name, r.type) for r in self._rules(spec))

    def native_scan(self, spec: ReadSpec) -> NativeScan | None:
        """That DuckDB's extension reads; a read in partitions has none, since each asks for its own rows."""
        if _parts(spec) > 1:
            return None
        return NativeScan("SELECT NULL", "the postgres extension", setup=planned_loading(EXTENSION), rule=_RULE)

    def resolve_scan(self, spec: ReadSpec) -> NativeScan | None:
        """The scan of what is there now.

        Raises:
            ConnectorError: PZ0353 for a declared column that is not there, or why it cannot be read.
        """
        if _parts(spec) > 1:
            return None
        return self._shared(spec) or self.settle_scan(spec)

    def settle_scan(self, spec: ReadSpec) -> NativeScan:
        """The scan that tells every value that DuckDB cannot hold, over one connection.

        Raises:
            ConnectorError: PZ0353 for a declared column that is not there, or why it cannot be read.
        """
        forms = told_forms((r.name, r.how) for r in self._kept_rules(spec))
        # What was attached for the other scan holds a connection, and there may be no second one.
        alias = self._attached.get(spec.entity, self._alias)
        return self._scan(spec, self._select(spec, alias), alias, forms)

    def _scan(self, spec: ReadSpec, query: str, alias: str, choice: str, *, guarded: bool = False) -> NativeScan:
        planned = self.native_scan(spec)
        assert planned is not None
        setup = self._settings.setup(alias)
        return replace(planned, query=query, setup=setup, choice=choice, guarded=guarded)

    def _shared(self, spec: ReadSpec) -> NativeScan | None:
        """The scan of a whole plain table; the server is asked for less only over one connection."""
        if query_of(spec) is not None or self._conditions(spec):
            return None
        state = self._table(spec).shared
        if state is None:
            return None
        name = TableName.of(spec.entity, self._subject(spec))
        alias = self._settings.alias(f"read {name.schema} {state}")
        query = shared_scan(self._kept_rules(spec), quote_path(alias, name.schema, name.table))
        if query is None:
            return None
        self._attached[spec.entity] = alias
        return self._scan(spec, query, alias, "binary, over several connections at once", guarded=True)

    def partitions(self, spec: ReadSpec) -> Sequence[Partition]:
        """One, or as many as ``partitions`` says, cut by ``partition_column``; all see one moment.

        Raises:
            ConnectorError: PZ0353 if the column cannot cut the rows.
        """
        count = _parts(spec)
        if count < 2 or spec.capture is not None:
            return (Partition(),)
        subject, table = self._subject(spec), self._table(spec)
        held = self._snapshot = connect(self._settings)
        with faults(subject):
            relation = self._relation(spec)
        return partitions_of(held, table, relation, spec, count, subject)

    def read(self, spec: ReadSpec, partition: Partition, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of one part.

        Raises:
            ConnectorError: what the server met; transient where the connection was lost.
        """
        if spec.capture is not None:
            yield from self._captured(spec).batches(batch_rows)
            return
        subject = self._subject(spec)
        query = self._select(spec, self._own_alias, condition_of(partition, self._table(spec)))
        cursor = self._cursor(subject)
        try:
            with faults(subject):
                if partition.payload.get("snapshot"):
                    cursor.execute("BEGIN TRANSACTION")
                    adopt = f"SET TRANSACTION SNAPSHOT {quote_literal(str(partition.payload['snapshot']))}"
                    cursor.execute(f"CALL postgres_execute({quote_literal(self._own_alias)}, {quote_literal(adopt)})")
                yield from stream(cursor, query, batch_rows)
        finally:
            self._release(cursor)

    def next_token(self, spec: ReadSpec, partition: Partition) -> str | None:
        """Where the next read of a captured table goes on."""
        return None if self._capture is None else self._capture.token

    def key_columns(self, spec: ReadSpec) -> tuple[str, ...]:
        """Columns of a captured table that tell one row from another."""
        return () if self._capture is None else self._capture.keys

    def interrupt(self) -> None:
        """Stop the reading of a log, from any thread; what DuckDB reads, an engine stops by itself."""
        if self._capture is not None:
            self._capture.interrupt()

    def close(self) -> None:
        """Stop what runs and release everything."""
        if self._capture is not None:
            self._capture.close()
        with self._lock:
            database, self._database = self._database, None
            cursors, self._cursors = tuple(self._cursors), set()
            snapshot, self._snapshot = self._snapshot, None
        for cursor in cursors:
            with contextlib.suppress(Exception):
                cursor.interrupt()
        if database is not None:
            with contextlib.suppress(Exception):
                database.execute(f"DETACH {quote_identifier(self._own_alias)}")
            database.close()
        if snapshot is not None:
            with contextlib.suppress(Exception):
                snapshot.close()

    def _captured(self, spec: ReadSpec) -> CapturedRead:
        from pz_postgres.capture import CapturedRead

        self._capture = CapturedRead(self._settings, spec, self._own_alias, self._cursor, self._release)
        return self._capture

    # --- what is read ----------------------------------------------------------------------------------------------

    def _subject(self, spec: ReadSpec) -> str:
        return f"{self._settings.name}.{spec.entity}"

    def _table(self, spec: ReadSpec) -> PgTable:
        query = query_of(spec)
        key = (spec.entity, query)
        if key not in self._known:
            subject = self._subject(spec)
            if query is not None:
                with connected(self._settings) as connection:
                    found: PgTable | None = describe_query(connection, query, subject)
            else:
                found = look_at(self._settings, TableName.of(spec.entity, subject), subject)
            if found is None:
                raise ConnectorError(
                    f"{subject}: there is no such table or view in {self._settings.shown}",
                    hint="check the name (it keeps its case) and the schema, which is public if none is named",
                )
            self._known[key] = found
        return self._known[key]

    def _rules(self, spec: ReadSpec) -> tuple[Rule, ...]:
        table = self._table(spec)
        return rules_of(table.columns, table.version, spec.columns, self._subject(spec))

    def _kept_rules(self, spec: ReadSpec) -> tuple[Rule, ...]:
        """Those of the columns that hints ask for."""
        rules = self._rules(spec)
        if spec.hints.columns is None or not self._hinted(spec):
            return rules
        wanted = set(spec.hints.columns)
        return tuple(r for r in rules if r.name in wanted) or rules[:1]

    def _hinted(self, spec: ReadSpec) -> bool:
        """Whether hints are taken: a query is sent as it stands, and a contract names the columns by itself."""
        return query_of(spec) is None and spec.columns is None

    def _relation(self, spec: ReadSpec) -> str:
        query = query_of(spec)
        return f"({query}\n)" if query is not None else TableName.of(spec.entity, self._subject(spec)).quoted

    def _select(self, spec: ReadSpec, alias: str, condition: str | None = None) -> str:
        rules = self._kept_rules(spec)
        conditions = [*self._conditions(spec), *([condition] if condition else [])]
        if not rules:
            raise ConnectorError(f"{self._subject(spec)}: it has no columns", hint="read another table")
        return scan(rules, self._relation(spec), conditions, alias)

    def _conditions(self, spec: ReadSpec) -> list[str]:
        """What the server leaves out."""
        columns = self._table(spec).columns
        made = [*pushed(spec.hints.predicate if self._hinted(spec) else None, columns)]
        bounds = None if query_of(spec) is not None else bounds_of(spec.bounds, columns)
        return made if bounds is None else [*made, bounds]

    # --- a DuckDB of our own ---------------------------------------------------------------------------------------

    def _cursor(self, subject: str) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._database is None:
                self._database = LOCAL.attached(self._settings, self._own_alias, subject)
            cursor = self._database.cursor()
            self._cursors.add(cursor)
            return cursor

    def _release(self, cursor: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            self._cursors.discard(cursor)
        with contextlib.suppress(Exception):
            cursor.close()


def query_of(spec: ReadSpec) -> str | None:
    """The query of a read, without the semicolon that ends it."""
    given = spec.options.get("query")
    return None if given is None else str(given).strip().removesuffix(";")


def _parts(spec: ReadSpec) -> int:
    given = spec.options.get("partitions")
    return int(given) if isinstance(given, (int, float, str)) and spec.options.get("partition_column") else 1

"""The class behind ``connector: postgres``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pz_core.contract.capabilities import Capabilities
from pz_core.contract.capture import CaptureStatus
from pz_core.contract.connector import CheckReport, ConnectionConfig, ConnectorError, ReadSpec, WriteSpec
from pz_core.contract.load import SCHEMA_POLICIES
from pz_core.contract.options import Option, OptionSet, option_set
from pz_core.errors import PzError
from pz_postgres.names import TableName
from pz_postgres.pipe import PIPES
from pz_postgres.settings import Settings
from pz_postgres.sink import TableSink
from pz_postgres.source import TableSource, query_of

_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


class Postgres:
    """Tables of one database."""

    name: ClassVar[str] = "postgres"
    connection_options: ClassVar[OptionSet] = option_set(
        Option("host", "string", "host name or address of the server", required=True),
        Option("database", "string", "the database", required=True),
        Option("port", "integer", "the server's port", default="5432", minimum=1, maximum=65535),
        Option("user", "string", "the role to log in as", default="the user of the operating system"),
        Option("password", "string", "its password", secret=True),
        Option("ssl_mode", "string", "whether TLS is used, and what is verified", default="prefer", choices=_SSL_MODES),
        Option("ssl_root_cert", "string", "certificates to trust; relative to the project, or system"),
        Option("ssl_cert", "string", "certificate of the client; relative to the project"),
        Option("ssl_key", "string", "its key; relative to the project"),
        Option(
            "connect_timeout_seconds", "integer", "how long to wait for a connection",
            default="15", minimum=1, maximum=3600,
        ),
        Option(
            "command_timeout_seconds", "integer",
            "how long to wait for a lock, or for the answer to a look at the catalog; 0 is no limit",
            default="30", minimum=0, maximum=86400,
        ),
    )  # fmt: skip
    read_options: ClassVar[OptionSet] = option_set(
        Option("query", "string", "a query to read instead of a table, in PostgreSQL's SQL"),
        Option("partition_column", "string", "number, date or timestamp column by whose ranges the read is split"),
        Option("partitions", "integer", "how many connections fetch at once", default="1", minimum=1, maximum=16),
        Option("publication", "string", "of a change capture: a publication that is there, instead of one of pz's own"),
    )
    write_options: ClassVar[OptionSet] = option_set()
    capabilities: ClassVar[Capabilities] = Capabilities(
        reads=True,
        native_read=True,
        universal_read=True,
        native_write=PIPES,
        universal_write=True,
        load_modes=frozenset({"program"}),
        schema_policies=frozenset(SCHEMA_POLICIES),
        column_pruning=True,
        predicate_pushdown=True,
        bounded_window=True,
        inclusive_bound=True,
        floor_pushdown=True,
        partitioned_read=True,
        ledger=True,
        apply_deletes=True,
        change_capture=True,
        two_part_names=True,
        transactional=True,
    )

    def __init__(self, connection: ConnectionConfig) -> None:
        self._connection = connection
        self._settings = Settings.of(connection)

    @staticmethod
    def imports(spec: ReadSpec | WriteSpec) -> tuple[str, ...]:
        """psycopg, but for tables that DuckDB's extension reads by itself."""
        alone = (
            isinstance(spec, ReadSpec) and spec.capture is None and not {"query", "partitions"} & spec.options.keys()
        )
        return () if alone else ("psycopg",)

    def validate(self) -> Sequence[PzError]:
        """PZ0301 for TLS options that do not go together."""
        options = self._connection.options
        mode = str(options.get("ssl_mode", "prefer"))
        faults = []
        given = [name for name in ("ssl_root_cert", "ssl_cert", "ssl_key") if name in options]
        if mode == "disable" and given:
            faults.append(self._fault(f"option '{given[0]}' means nothing with ssl_mode: disable", "drop one of them"))
        if ("ssl_cert" in options) != ("ssl_key" in options):
            faults.append(self._fault("ssl_cert and ssl_key belong together", "give both, or neither"))
        return faults

    def validate_read(self, spec: ReadSpec) -> Sequence[PzError]:
        """PZ0353 for a name that is no table's, and for options that do not go together."""
        faults = [] if "query" in spec.options else list(self._name_faults(spec.entity))
        subject = f"{self._connection.name}.{spec.entity}"
        if "query" in spec.options and not query_of(spec):
            faults.append(PzError("PZ0353", f"{subject}: query is empty", hint="write a SELECT, or drop query"))
        if ("partitions" in spec.options) != ("partition_column" in spec.options):
            faults.append(
                PzError(
                    "PZ0353",
                    f"{subject}: partitions and partition_column belong together",
                    hint="give both, or neither",
                )
            )
        return [*faults, *self._capture_faults(spec, subject)]

    def _capture_faults(self, spec: ReadSpec, subject: str) -> Sequence[PzError]:
        if spec.capture is None:
            if "publication" not in spec.options:
                return ()
            told = f"{subject}: publication is for a change capture only"
            return (PzError("PZ0353", told, hint="add sync: {mode: cdc}, or drop publication"),)
        if "query" in spec.options:
            told = f"{subject}: the changes of a query cannot be captured"
            return (PzError("PZ0353", told, hint="drop query, and filter in the pipeline"),)
        from pz_postgres.capture_slot import CaptureNames

        try:
            CaptureNames.of(self._settings, spec)
        except ConnectorError as error:
            return () if self._name_faults(spec.entity) else (PzError(error.code, error.message, hint=error.hint),)
        return ()

    def validate_write(self, spec: WriteSpec) -> Sequence[PzError]:
        """PZ0353 for a name that is no table's."""
        return self._name_faults(spec.entity)

    def _fault(self, message: str, hint: str) -> PzError:
        return PzError("PZ0301", f"connection '{self._connection.name}': {message}", hint=hint)

    def _name_faults(self, entity: str) -> Sequence[PzError]:
        try:
            TableName.of(entity, f"{self._connection.name}.{entity}")
        except ConnectorError as error:
            return (PzError(error.code, error.message, hint=error.hint),)
        return ()

    def write_place(self, spec: WriteSpec) -> str:
        """The server, the database and the table, whose name keeps its case."""
        name = TableName.of(spec.entity, f"{self._connection.name}.{spec.entity}")
        return f"{self._settings.place}:{name.quoted}"

    def capture_status(self, spec: ReadSpec) -> CaptureStatus:
        """How a captured table stands."""
        from pz_postgres.capture_admin import capture_status

        return capture_status(self._settings, spec)

    def drop_capture(self, spec: ReadSpec, *, dry_run: bool) -> tuple[str, ...]:
        """Remove a captured table's slot and publication."""
        from pz_postgres.capture_admin import drop_capture

        return drop_capture(self._settings, spec, dry_run=dry_run)

    def check(self) -> CheckReport:
        """Log in, and say what was found or what is wrong."""
        from pz_postgres.control import ask, connected

        try:
            with connected(self._settings) as held:
                version, user, tls = ask(
                    held,
                    "SELECT pg_catalog.current_setting('server_version'), current_user::text, "
                    "coalesce((SELECT s.version FROM pg_catalog.pg_stat_ssl s "
                    "WHERE s.pid = pg_catalog.pg_backend_pid() AND s.ssl), '')",
                    (),
                    f"connection '{self._connection.name}'",
                )[0]
        except ConnectorError as error:
            return CheckReport(False, error.message, error.hint)
        secure = f"over {tls}" if tls else "without TLS"
        return CheckReport(True, f"PostgreSQL {version} at {self._settings.shown}, as {user}, {secure}")

    def open_source(self) -> TableSource:
        """Open for reading; touches nothing."""
        return TableSource(self._settings)

    def open_sink(self) -> TableSink:
        """Open for writing; touches nothing."""
        return TableSink(self._settings)

"""The one connection of a state store: opened on first use, opened again when it was lost, its faults coded."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pz_core.contract.connector import ConnectionConfig, ConnectorError
from pz_core.contract.secrets import Secret, reveal
from pz_core.errors import PzError, PzErrors
from pz_core.values import Value
from pz_postgres import control
from pz_postgres.settings import Settings

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

CONNECTOR = "postgres"
DEFAULT_SCHEMA = "pz"
CREDENTIAL = "PZ_STATE_CONNECTION_STRING"
#: PostgreSQL cuts a longer name without a word.
LONGEST_NAME = 63
#: Statements of a store see what others have committed, whatever the role or the database is set to; and the server
#: finds out within a minute that a machine is gone, or the lock of its run would make it look alive for hours.
_SESSION = (
    "-c default_transaction_isolation=read\\ committed "
    "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
)
#: SQLSTATEs and their classes that mean: the store did not answer, or could not just then.
_OUT_OF_REACH = ("08", "53", "57P", "57014", "55P03", "40001", "40P01")
#: Parameters of libpq that :class:`Settings` has places for.
_PLACED = {
    "host": "host",
    "port": "port",
    "dbname": "database",
    "user": "user",
    "password": "password",
    "sslmode": "ssl_mode",
    "sslrootcert": "ssl_root_cert",
    "sslcert": "ssl_cert",
    "sslkey": "ssl_key",
    "connect_timeout": "connect_timeout_seconds",
}


class Link:
    """Does things on the connection, one at a time. Safe to use from several threads.

    Args:
        settings: of the server.
        more: further parameters of libpq.
        schema: the schema that the store is in.
        prepare: called with each new connection before it is used.
    """

    def __init__(
        self,
        settings: Settings,
        more: Mapping[str, str],
        schema: str,
        prepare: Callable[[psycopg.Connection[Any]], None],
    ) -> None:
        self.settings = settings
        self.schema = schema
        self._more = dict(more)
        self._prepare = prepare
        self._connection: psycopg.Connection[Any] | None = None
        self._mutex = threading.RLock()

    @property
    def shown(self) -> str:
        """The place for messages, without a credential."""
        return f"PostgreSQL {self.settings.shown}, schema {self.schema}"

    def do(self, action: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Do something that may be done twice: a connection that is lost on the way is opened once more.

        Raises:
            PzError: PZ0518 if the store cannot be reached, PZ0519 or PZ0528 if it is not of this version, PZ0529 for
                anything else that it answers.
        """
        import psycopg

        with self._mutex:
            for attempt in (1, 2):
                fresh = self._connection is None
                try:
                    connection = self._opened()
                    return action(connection)
                except psycopg.Error as error:
                    lost = self._connection is None or bool(self._connection.closed)
                    if lost:
                        self._drop()
                    if not lost or fresh or attempt == 2:
                        raise self.fault(error) from error
        raise AssertionError("either done or refused")

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._mutex:
            self._drop()

    def fault(self, error: psycopg.Error) -> PzError:
        """What the server said, coded; no value of the data and no credential stands in it."""
        import psycopg

        state = error.sqlstate
        told = control.statement_error(error, "the store").message.removeprefix("the store: ")
        away = isinstance(error, psycopg.OperationalError) if state is None else state.startswith(_OUT_OF_REACH)
        if away:
            return PzError(
                "PZ0518",
                f"the state in {self.shown} cannot be reached: {told}",
                hint="check that the server is up and the network to it, then run again",
                cause=error,
            )
        hint = "the message is the server's own; look at the tables of the schema, or ask who keeps the database"
        if state == "42501":
            hint = "let this user read, insert, update and delete in the tables of the schema, or use another user"
        elif state == "25006":
            hint = "the server only takes reads: name the primary, not a standby"
        number = "" if state is None else f" (SQLSTATE {state})"
        return PzError("PZ0529", f"the state in {self.shown} refused: {told}{number}", hint=hint, cause=error)

    # --- opening -------------------------------------------------------------------------------------------------

    def _opened(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            options = [self.settings.parameters()["options"], _SESSION, self._more.get("options", "")]
            more = {**self._more, "options": " ".join(part for part in options if part), "application_name": "pz state"}
            try:
                made = control.connect(self.settings, **more)
            except ConnectorError as error:
                raise PzError(
                    "PZ0518",
                    f"the state in {self.shown} cannot be reached: {error.message}",
                    hint=error.hint,
                    cause=error,
                ) from None
            self._connection = made
            try:
                self._prepare(made)
            except BaseException:
                self._drop()
                raise
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.close()
            self._connection = None


def schema_of(settings: Mapping[str, Value]) -> str:
    """The schema that the store is in.

    Raises:
        PzError: PZ0536 for a name that PostgreSQL would cut.
    """
    schema = str(settings.get("schema") or DEFAULT_SCHEMA)
    if len(schema.encode("utf-8", "replace")) > LONGEST_NAME or "\0" in schema:
        raise PzError(
            "PZ0536",
            f"state.schema is no name for PostgreSQL, which takes at most {LONGEST_NAME} bytes",
            hint="choose a shorter name",
        )
    return schema


def server_of(settings: Mapping[str, Any], project_dir: str) -> tuple[Settings, dict[str, str]]:
    """Where the server is, and what libpq is told beyond that.

    Raises:
        PzError, PzErrors: PZ0125 if nothing names a server; PZ0301 for options that the connector does not take.
    """
    config = settings.get("connection")
    if isinstance(config, ConnectionConfig):
        if config.connector != CONNECTOR:
            raise PzError(
                "PZ0125",
                f"state.connection '{config.name}' is a {config.connector} connection, and the backend is {CONNECTOR}",
                hint=f"name a connection whose connector is {CONNECTOR}",
            )
        _refuse_faulty(config)
        return Settings.of(config), {}
    text = settings.get("connection_string")
    if isinstance(text, (Secret, str)):
        return _from_string(text, project_dir)
    raise PzError(
        "PZ0125",
        f"state.backend {CONNECTOR} has neither state.connection nor {CREDENTIAL}",
        hint=f"name a {CONNECTOR} connection under state.connection, or set {CREDENTIAL}",
    )


def _refuse_faulty(config: ConnectionConfig) -> None:
    from pz_postgres.connector import Postgres

    declared = Postgres.connection_options
    subject = f"connection '{config.name}', which the state is in"
    faults = [
        PzError("PZ0301", f"{subject}: unknown option '{name}'", hint=f"it takes {', '.join(declared.names())}")
        for name in config.options
        if name not in declared.names()
    ]
    plain = dict(_plain(config.options))
    faults += [
        PzError("PZ0301", f"{subject}: {fault}", hint=f"it takes {', '.join(declared.names())}")
        for fault in declared.faults(plain, known=plain, shown=False)
    ]
    if not faults:
        faults += Postgres(config).validate()
    if faults:
        raise PzErrors(faults)


def _plain(options: Mapping[str, Value | Secret]) -> Iterator[tuple[str, Value]]:
    for name, value in options.items():
        yield name, reveal(value) if isinstance(value, Secret) else value


def _from_string(text: Secret | str, project_dir: str) -> tuple[Settings, dict[str, str]]:
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        found = {key: str(value) for key, value in conninfo_to_dict(reveal(text)).items() if value is not None}
    except ProgrammingError:  # its message repeats the text
        raise PzError(
            "PZ0125",
            f"{CREDENTIAL} is no connection string of PostgreSQL",
            hint="write postgresql://user:password@host:5432/database, or host=… dbname=… user=… password=…",
        ) from None
    options: dict[str, Value | Secret] = {}
    for parameter, option in _PLACED.items():
        if parameter in found:
            value = found.pop(parameter)
            options[option] = Secret(value) if option == "password" else value
    return Settings.of(ConnectionConfig(CREDENTIAL, CONNECTOR, options, project_dir)), found

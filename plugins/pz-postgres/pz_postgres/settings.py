"""The options of a connection, and how libpq is told of them: for psycopg, and for DuckDB's extension."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import ClassVar

from pz_core.contract.connector import ConnectionConfig, Setup
from pz_core.contract.extensions import loading
from pz_core.contract.secrets import Secret, reveal
from pz_core.values import quote_identifier, quote_literal
from pz_core.values.discreet import Discreet

#: Of DuckDB's.
EXTENSION = "postgres_scanner"
#: What every session of pz has: text forms that any session reads back, and instants in UTC.
SESSION = {
    "TimeZone": "UTC",
    "DateStyle": "ISO,YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "client_min_messages": "error",  # libpq would write all else to stderr as it is
}
_IDLE_SECONDS, _PROBE_SECONDS, _PROBES = 30, 10, 3


class Settings(Discreet, frozen=True):
    """A connection of a project.

    Args:
        name: its key in ``connections.yml``.
        host, port, database, user: of the server.
        password: wrapped until a driver needs it.
        ssl: libpq's TLS parameters, ``sslmode`` first.
        connect_timeout: seconds to wait for a connection.
        command_timeout: seconds to wait for a lock or for the answer to a look at the catalog; 0 is no limit.
        session: further settings of each session.
    """

    kept: ClassVar[frozenset[str]] = frozenset({"password"})

    name: str
    host: str
    port: int
    database: str
    user: str | None
    password: Secret | None
    ssl: tuple[tuple[str, str], ...] = ()
    connect_timeout: int = 15
    command_timeout: int = 30
    session: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, config: ConnectionConfig) -> Settings:
        """From a connection, whose options have been checked."""

        def text(key: str) -> str | None:
            given = config.options.get(key)
            return None if given is None else reveal(given) if isinstance(given, Secret) else str(given)

        def number(key: str, default: int) -> int:
            try:
                return int(text(key) or default) if text(key) != "0" else 0
            except ValueError:
                return default

        ssl = [("sslmode", text("ssl_mode"))]
        base = Path(config.base_dir)
        for option, parameter in (("ssl_root_cert", "sslrootcert"), ("ssl_cert", "sslcert"), ("ssl_key", "sslkey")):
            path = text(option)
            ssl.append((parameter, path if path in (None, "system") else str(base / str(path))))
        password = text("password")
        return cls(
            config.name,
            text("host") or "",
            number("port", 5432),
            text("database") or "",
            text("user"),
            None if password is None else Secret(password),
            tuple((parameter, value) for parameter, value in ssl if value is not None),
            number("connect_timeout_seconds", 15),
            number("command_timeout_seconds", 30),
        )

    @property
    def shown(self) -> str:
        """The place for messages."""
        return f"{self.host}:{self.port}, database {self.database}"

    @property
    def place(self) -> str:
        """The database, spelled one way."""
        return f"postgres:{self.host.lower()}:{self.port}:{self.database}"

    def parameters(self) -> dict[str, str]:
        """Libpq's parameters but for the ones that a DuckDB secret holds."""
        wait = self.command_timeout * 1000
        options = {**SESSION, **({"lock_timeout": str(wait)} if wait else {}), **dict(self.session)}
        made = {
            **dict(self.ssl),
            "connect_timeout": str(self.connect_timeout),
            "client_encoding": "UTF8",
            "application_name": "pz",
            "keepalives_idle": str(_IDLE_SECONDS),
            "keepalives_interval": str(_PROBE_SECONDS),
            "keepalives_count": str(_PROBES),
            "options": " ".join(f"-c {name}={value}" for name, value in options.items()),
        }
        if self.command_timeout:
            made["tcp_user_timeout"] = str(max(wait, (_IDLE_SECONDS + _PROBE_SECONDS * _PROBES) * 1000))
        return made

    def login(self) -> dict[str, str | int]:
        """Libpq's parameters of the place and the user, the password among them."""
        made: dict[str, str | int] = {"host": self.host, "port": self.port, "dbname": self.database}
        if self.user is not None:
            made["user"] = self.user
        if self.password is not None:
            made["password"] = reveal(self.password)
        return made

    # --- for DuckDB ----------------------------------------------------------------------------------------------

    @property
    def conninfo(self) -> str:
        """:meth:`parameters` as libpq takes them in one text."""
        return " ".join(f"{key}={_conninfo(value)}" for key, value in self.parameters().items())

    def setup(self, alias: str) -> tuple[Setup, ...]:
        """Statements that attach the database to a DuckDB, for reading the state of one moment.

        Args:
            alias: unquoted name of the attached database.

        Raises:
            ConnectorError: PZ0311 if the extension's package is not installed.
        """
        secret = f"pz_postgres_{_plain(self.name)}_{_digest(repr((self.name, self.login())))}"
        keys = {"host": "HOST", "port": "PORT", "dbname": "DATABASE", "user": "USER", "password": "PASSWORD"}
        given = ", ".join(f"{keys[key]} {quote_literal(str(value))}" for key, value in self.login().items())
        mode = "READ_ONLY, ISOLATION_LEVEL 'REPEATABLE READ'"
        return (
            loading(EXTENSION),
            Setup(
                f"CREATE TEMPORARY SECRET IF NOT EXISTS {quote_identifier(secret)} (TYPE postgres, {given})", "secret"
            ),
            Setup(
                f"ATTACH IF NOT EXISTS {quote_literal(self.conninfo)} AS {quote_identifier(alias)} "
                f"(TYPE postgres, SECRET {quote_identifier(secret)}, {mode})",
                "attach",
            ),
        )

    def alias(self, purpose: str) -> str:
        """A name in the engine's DuckDB, one a connection and purpose."""
        return f"pz_pg_{_plain(self.name)}_{_digest(repr((self.name, purpose)))}"


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)[:40]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _conninfo(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

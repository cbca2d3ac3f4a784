"""The connection beside the bulk path: looks at catalogs, says what is wrong, cancels, and asks how a commit ended."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pz_core.contract.connector import ConnectorError
from pz_core.contract.secrets import reveal
from pz_postgres.settings import Settings

if TYPE_CHECKING:
    import psycopg

#: Classes and codes of SQLSTATE that may pass: the connection, resources, the server's own doing, two at once.
_PASSING_CLASSES = ("08", "53", "57P")
_PASSING = frozenset({"40001", "40P01", "55P03", "57014", "55006"})
#: A unique key that two loads met at; the one that lost may find it there next time.
_CONFLICT = "23505"
_REASONS: tuple[tuple[re.Pattern[str], str, bool], ...] = (
    (re.compile(r"password authentication failed|no password supplied|SASL|scram", re.I),
     "the password or the user is wrong: correct user: and password: of the connection", False),
    (re.compile(r"no pg_hba\.conf entry", re.I),
     "the server does not let this user in from here in this way: check pg_hba.conf, or ssl_mode:", False),
    (re.compile(r"certificate|SSL|TLS|root\.crt", re.I),
     "TLS: check ssl_mode: and ssl_root_cert: of the connection against what the server offers", False),
    (re.compile(r"database \".*\" does not exist", re.I), "correct database: of the connection", False),
    (re.compile(r"role \".*\" does not exist|is not permitted to log in", re.I),
     "correct user: of the connection, or create the role", False),
    (re.compile(r"permission denied for database", re.I), "grant CONNECT on the database to the user", False),
    (re.compile(r"translate host name|name or service not known|nodename nor servname|resolve", re.I),
     "the host is not known: correct host: of the connection", True),
    (re.compile(r"connection refused", re.I),
     "nothing listens there: check host: and port:, and that the server is up", True),
    (re.compile(r"timeout expired|timed out|timeout", re.I),
     "the server did not answer in time: check host:, port: and the firewall, or raise connect_timeout_seconds", True),
    (re.compile(r"too many (clients|connections)|remaining connection slots", re.I),
     "the server has no connection left: lower max_concurrency: of the connection, or raise max_connections", True),
    (re.compile(r"starting up|shutting down|recovery mode", re.I), "the server is starting or stopping", True),
)  # fmt: skip


def connect(settings: Settings, **more: str) -> psycopg.Connection[Any]:
    """Open a connection that commits every statement by itself.

    Args:
        settings: of the connection.
        more: further parameters of libpq.

    Raises:
        ConnectorError: saying what is wrong: host, port, TLS, password, database or privilege.
    """
    import logging

    import psycopg

    # What it warns of is told by the error that goes with it; without a handler it would stand on stderr as it is.
    if not (logger := logging.getLogger("psycopg")).handlers:
        logger.addHandler(logging.NullHandler())
    parameters: dict[str, Any] = {**settings.parameters(), **settings.login(), **more}
    try:
        made = psycopg.connect(autocommit=True, prepare_threshold=None, **parameters)
        if settings.command_timeout:
            made.execute(f"SET statement_timeout = {settings.command_timeout * 1000}")
        return made
    except psycopg.Error as error:
        raise connection_error(str(error), settings) from None


@contextlib.contextmanager
def connected(settings: Settings) -> Iterator[psycopg.Connection[Any]]:
    """A connection for a look, closed at the end."""
    made = connect(settings)
    try:
        yield made
    finally:
        with contextlib.suppress(Exception):
            made.close()


def ask(connection: psycopg.Connection[Any], sql: str, params: Sequence[object], subject: str) -> list[tuple[Any, ...]]:
    """Rows of one statement.

    Raises:
        ConnectorError: what the server said.
    """
    import psycopg

    try:
        return connection.execute(sql.encode(), params or None).fetchall()
    except psycopg.Error as error:
        raise statement_error(error, subject) from error


def connection_error(text: str, settings: Settings) -> ConnectorError:
    """Why a connection could not be made. The password stands in no message, whatever a driver echoes.

    Args:
        text: what libpq said.
        settings: of the connection.
    """
    text = _first_line(text, settings)
    unknown = ("check host:, port:, database:, user: and password: of the connection", True)
    hint, transient = next(((told, may) for pattern, told, may in _REASONS if pattern.search(text)), unknown)
    return ConnectorError(f"connection '{settings.name}' ({settings.shown}): {text}", transient=transient, hint=hint)


def statement_error(error: Exception, subject: str) -> ConnectorError:
    """What the server said to a statement: its message, without the detail, which may hold values."""
    diagnosis = getattr(error, "diag", None)
    state = getattr(error, "sqlstate", None)
    message = getattr(diagnosis, "message_primary", None) or _first_line(str(error), None)
    return ConnectorError(
        f"{subject}: {without_quoted_values(message, state)}",
        code="PZ0812" if state is not None and state.startswith("22") else "PZ0501",
        transient=state is None or passes(state),
        hint=hint_for(state),
        cause=error,
    )


def passes(state: str) -> bool:
    """Whether an error of this SQLSTATE may not come again."""
    return state.startswith(_PASSING_CLASSES) or state in _PASSING or state == _CONFLICT


def hint_for(state: str | None) -> str:
    """What to do about an error of a SQLSTATE."""
    if state == "42501":
        return "grant the user what the message names, or use another user"
    if state in ("42P01", "3F000", "42703"):
        return "check the name of the entity and its columns; names keep their case"
    if state == "55P03":
        return "another session holds the table; raise command_timeout_seconds of the connection to wait longer"
    if state == "57014":
        return "raise command_timeout_seconds of the connection"
    if state is None or state.startswith(("08", "57P")):
        return "the connection was lost: check the server and the network, then run it again"
    return "the message is the server's own; correct the entity, the query or the user's rights"


def without_quoted_values(message: str, state: str | None) -> str:
    """A message that tells no value: those about the data (class 22 and 23) quote it."""
    if state is None or state.startswith(("22", "23")):
        return re.sub(r":\s*\"(?:[^\"]|\"\")*\"|'[^']*'", "", message).strip()
    return message


def _first_line(text: str, settings: Settings | None) -> str:
    """The line of a driver's message that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # A server that refuses says more than an address at which there is none.
    told = next((line for words in ("FATAL", "failed:") for line in lines if words in line), "")
    told = told or (lines[0] if lines else "no answer")
    told = re.sub(r"^.*failed: ", "", told)
    told = re.sub(r"^FATAL:\s*", "", told)
    secret = None if settings is None or settings.password is None else reveal(settings.password)
    return told.replace(secret, "***") if secret else told

"""The tables of a state store: made and brought to this version in one transaction, under a lock of the schema.

Source: engine.md 6.4.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pz_core.errors import PzError
from pz_core.values import quote_identifier, quote_path

if TYPE_CHECKING:
    import psycopg

#: How long another process may hold the lock while it migrates, in milliseconds.
LOCK_TIMEOUT_MS = 30_000

#: What each version adds; ``{s}`` is the quoted schema. Versions only follow one another, and none is ever edited.
MIGRATIONS: tuple[Sequence[str], ...] = (
    (
        """
        CREATE TABLE {s}.state (
            scope      varchar(32) COLLATE "C" NOT NULL,
            state_key  varchar(512) COLLATE "C" NOT NULL,
            payload    json NOT NULL,
            version    bigint NOT NULL,
            updated_at timestamptz NOT NULL DEFAULT now(),
            project    text NOT NULL DEFAULT '',
            PRIMARY KEY (scope, state_key)
        )
        """,
        """
        CREATE TABLE {s}.runs (
            run_id         varchar(64) COLLATE "C" PRIMARY KEY,
            project        text NOT NULL,
            status         text NOT NULL,
            started_at     timestamptz,
            finished_at    timestamptz,
            events_dropped bigint NOT NULL DEFAULT 0,
            payload        json NOT NULL
        )
        """,
        "CREATE INDEX runs_of_project ON {s}.runs (project, run_id DESC)",
        """
        CREATE TABLE {s}.run_nodes (
            run_id           varchar(64) COLLATE "C" NOT NULL REFERENCES {s}.runs ON DELETE CASCADE,
            node_id          text COLLATE "C" NOT NULL,
            position         integer NOT NULL,
            name             text NOT NULL,
            kind             text NOT NULL,
            status           text NOT NULL,
            rows_moved       bigint,
            duration_ms      bigint,
            error_code       text,
            error_message    text,
            provenance       text,
            watermark_cursor text,
            watermark_type   text,
            watermark_value  text,
            payload          json NOT NULL,
            PRIMARY KEY (run_id, node_id)
        )
        """,
        """
        CREATE TABLE {s}.run_events (
            run_id  varchar(64) COLLATE "C" NOT NULL REFERENCES {s}.runs ON DELETE CASCADE,
            seq     bigint NOT NULL,
            at      timestamptz,
            event   text NOT NULL,
            payload json NOT NULL,
            PRIMARY KEY (run_id, seq)
        )
        """,
    ),
)

VERSION = len(MIGRATIONS)


def advisory_key(*parts: str) -> int:
    """The number of an advisory lock: the same for the same parts on every machine."""
    digest = hashlib.sha256("\0".join(("pz state", *parts)).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def ensure(connection: psycopg.Connection[Any], schema: str, shown: str) -> None:
    """Make the tables, or bring them to this version, if they are not.

    The version is read without the lock first: it only ever grows, so a store of this version needs no lock, and a user
    without rights to change tables can use it.

    Args:
        connection: commits every statement by itself.
        schema: the schema's name.
        shown: the store for messages.

    Raises:
        PzError: PZ0519 if a newer pz made it, or if its tables cannot be made; PZ0528 if somebody else is at it.
        psycopg.Error: if the connection is lost.
    """
    import psycopg

    stored = _version(connection, schema)
    _refuse_newer(stored, shown)
    if stored == VERSION:
        return
    try:
        with connection.transaction():
            _lock(connection, schema, shown)
            stored = _version(connection, schema)
            _refuse_newer(stored, shown)
            if stored < VERSION:
                _migrate(connection, schema, stored)
    except psycopg.Error as error:
        if connection.closed or error.sqlstate is None:
            raise
        told = error.diag.message_primary or "it failed"
        raise PzError(
            "PZ0519",
            f"the tables in {shown} could not be brought to version {VERSION}: {told} (SQLSTATE {error.sqlstate})",
            hint="let this user create the schema and tables in it, or let one who may run pz state show here once",
            cause=error,
        ) from error


def _refuse_newer(stored: int, shown: str) -> None:
    if stored > VERSION:
        raise PzError(
            "PZ0519",
            f"the state in {shown} was written by a newer pz (version {stored}, this one knows {VERSION})",
            hint="use that pz for this project, or choose another schema: under state:",
        )


def _version(connection: psycopg.Connection[Any], schema: str) -> int:
    """The store's version, 0 where there is none yet."""
    found = connection.execute(
        "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = 'schema_version'",
        (schema,),
    ).fetchone()
    if found is None:
        return 0
    row = connection.execute(
        f"SELECT version FROM {quote_path(schema, 'schema_version')} WHERE id = 1".encode()
    ).fetchone()
    return 0 if row is None else int(row[0])


def _lock(connection: psycopg.Connection[Any], schema: str, shown: str) -> None:
    import psycopg

    connection.execute(f"SET LOCAL lock_timeout = {int(LOCK_TIMEOUT_MS)}".encode())
    connection.execute("SET LOCAL statement_timeout = 0")
    try:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (advisory_key("schema", schema),))
    except psycopg.errors.LockNotAvailable as error:
        raise PzError(
            "PZ0528",
            f"the tables in {shown} are being made or migrated by another process, for more than "
            f"{LOCK_TIMEOUT_MS / 1000:g} seconds",
            hint="wait until it has ended, then run again",
            cause=error,
        ) from error


def _migrate(connection: psycopg.Connection[Any], schema: str, stored: int) -> None:
    quoted = quote_identifier(schema)
    there = connection.execute("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", (schema,)).fetchone()
    if there is None:  # IF NOT EXISTS would ask for the right to create one all the same
        connection.execute(f"CREATE SCHEMA {quoted}".encode())
    if stored == 0:
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {quoted}.schema_version "
            "(id smallint PRIMARY KEY CHECK (id = 1), version integer NOT NULL)".encode()
        )
    for statements in MIGRATIONS[stored:]:
        for statement in statements:
            connection.execute(statement.replace("{s}", quoted).encode())
    connection.execute(
        f"INSERT INTO {quoted}.schema_version VALUES (1, {VERSION}) "
        "ON CONFLICT (id) DO UPDATE SET version = excluded.version".encode()
    )

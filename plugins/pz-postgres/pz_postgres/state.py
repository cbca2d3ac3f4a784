"""The state backend ``postgres``: keyed entries and past runs in tables that many machines share.

Source: engine.md 6.4. An entry's version is a number that the writer draws at random, not a counter. So none is ever
used twice, also not after a removal, and a writer that lost the connection before the answer came can tell its own
write from somebody else's.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pz_core.contract.state import RunStore, StateEntry
from pz_core.errors import Notice, PzError
from pz_core.values import Value, canonical_json, quote_path
from pz_postgres import state_schema
from pz_postgres.state_link import Link, schema_of, server_of
from pz_postgres.state_runs import PostgresRuns

if TYPE_CHECKING:
    import psycopg

_SCOPE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_SCOPE = 32
_LONGEST_KEY = 512


class PostgresState:
    """Keyed entries in the table ``state`` of a schema. Safe to use from several threads and processes.

    Args:
        settings: ``connection`` (a :class:`~pz_core.contract.connector.ConnectionConfig`) or ``connection_string``,
            ``schema`` (``pz`` by default) and ``project``, the project's name.
        project_dir: folder of the project, which paths of certificates are relative to.

    Raises:
        PzError, PzErrors: PZ0125 if nothing names a server, PZ0301 for options of the connection, PZ0536.
    """

    name: ClassVar[str] = "postgres"

    def __init__(self, settings: Mapping[str, Value], project_dir: str) -> None:
        schema = schema_of(settings)
        server, more = server_of(settings, project_dir)
        self._project = str(settings.get("project") or "")
        self._link = Link(server, more, schema, self._prepare)
        self._runs = PostgresRuns(self._link, self._project)
        self._table = quote_path(schema, "state").replace("%", "%%")
        self._faults: dict[str, Notice] = {}
        self._unreadable: dict[tuple[str, str], int] = {}
        self._in_doubt: dict[tuple[str, str], _Doubt] = {}
        self._mutex = threading.RLock()

    @property
    def faults(self) -> tuple[Notice, ...]:
        """What was found unreadable so far, a note an entry."""
        return tuple(self._faults.values())

    def describe(self) -> str:
        """Where the state is."""
        return self._link.shown

    def read(self, scope: str, key: str) -> StateEntry | None:
        """The entry, or ``None`` if nothing is stored.

        Raises:
            PzError: PZ0518 if the store cannot be reached, PZ0519 if a newer pz made it or its tables cannot be made,
                PZ0528 if somebody else is making them, PZ0529 for anything else that the server answers.
            ValueError: for a scope that is no plain word.
        """
        _checked(scope, key)
        row = self._link.do(lambda connection: self._row(connection, scope, key))
        return None if row is None else self._entry(scope, key, *row)

    def entries(self, scope: str) -> Mapping[str, StateEntry]:
        """All entries of a scope by key, sorted. Raises like :meth:`read`."""
        _checked(scope, "")
        query = f"SELECT state_key, payload::text, version, project FROM {self._table} WHERE scope = %s"
        rows = self._link.do(lambda connection: connection.execute(query.encode(), (scope,)).fetchall())
        found = {key: self._entry(scope, key, *rest) for key, *rest in rows}
        return {key: entry for key in sorted(found) if (entry := found[key]) is not None}

    def write(self, scope: str, key: str, payload: Mapping[str, Value], expected: str | None) -> StateEntry:
        """Store a payload if the entry is still at version ``expected`` (``None``: still absent).

        A write whose answer was lost may be given again, here or by the caller: it succeeds if the first one did.

        Raises:
            PzError: PZ0520 if somebody else wrote it, PZ0536 for a key that is too long, else like :meth:`read`.
            ValueError: if JSON cannot hold the payload.
        """
        text = _ascii(canonical_json(payload))
        _checked(scope, key)
        with self._mutex:
            doubt = self._in_doubt.get((scope, key))
            if doubt is None or (doubt.expected, doubt.text) != (expected, text):
                doubt = _Doubt(expected, text)
            self._in_doubt[scope, key] = doubt  # until an answer came

            def put(connection: psycopg.Connection[Any]) -> bool:
                return self._put(connection, scope, key, doubt)

            written = self._link.do(put)
            del self._in_doubt[scope, key]
            if not written:
                raise self._lost(scope, key)
            self._faults.pop(f"{scope} {key}", None)
            self._unreadable.pop((scope, key), None)
        return StateEntry(dict(payload), str(doubt.version), self._project)

    def remove(self, scope: str, key: str, expected: str) -> None:
        """Remove an entry that is still at version ``expected``.

        Raises:
            PzError: like :meth:`write`.
        """
        _checked(scope, key)
        with self._mutex:
            doubt = self._in_doubt.get((scope, key))
            again = doubt is not None and (doubt.expected, doubt.text) == (expected, None)
            self._in_doubt[scope, key] = doubt if doubt is not None and again else _Doubt(expected, None)
            attempts = 1 if again else 0
            query = f"DELETE FROM {self._table} WHERE scope = %s AND state_key = %s AND version = %s"

            def take(connection: psycopg.Connection[Any]) -> bool:
                nonlocal attempts
                attempts += 1
                if connection.execute(query.encode(), (scope, key, _number(expected))).rowcount:
                    return True
                return attempts > 1 and self._row(connection, scope, key) is None  # the lost answer was: removed

            removed = self._link.do(take)
            del self._in_doubt[scope, key]
            if not removed:
                raise self._lost(scope, key)

    def run_store(self) -> RunStore:
        """The runs of the project, on the same connection."""
        return self._runs

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    # --- the table -----------------------------------------------------------------------------------------------

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        state_schema.ensure(connection, self._link.schema, self._link.shown)
        self._runs.hold(connection)

    def _row(self, connection: psycopg.Connection[Any], scope: str, key: str) -> tuple[Any, ...] | None:
        query = f"SELECT payload::text, version, project FROM {self._table} WHERE scope = %s AND state_key = %s"
        return connection.execute(query.encode(), (scope, key)).fetchone()

    def _put(self, connection: psycopg.Connection[Any], scope: str, key: str, doubt: _Doubt) -> bool:
        """Compare and set in one statement; whether the entry is now what was to be written, by this write."""
        expected = self._unreadable.get((scope, key)) if doubt.expected is None else _number(doubt.expected)
        if expected is None:
            query = (
                f"INSERT INTO {self._table} (scope, state_key, payload, version, project) VALUES (%s, %s, %s, %s, %s) "
                "ON CONFLICT DO NOTHING"
            )
            done = connection.execute(query.encode(), (scope, key, doubt.text, doubt.version, self._project))
        else:
            query = (
                f"UPDATE {self._table} SET payload = %s, version = %s, project = %s, updated_at = now() "
                "WHERE scope = %s AND state_key = %s AND version = %s"
            )
            done = connection.execute(query.encode(), (doubt.text, doubt.version, self._project, scope, key, expected))
        if done.rowcount:
            return True
        row = self._row(connection, scope, key)
        return row is not None and int(row[1]) == doubt.version

    def _lost(self, scope: str, key: str) -> PzError:
        gone = self._link.do(lambda connection: self._row(connection, scope, key)) is None
        return PzError(
            "PZ0520",
            f"{scope} of {key} was {'removed' if gone else 'written'} by somebody else since it was read; nothing was "
            "changed",
            hint="look at it with pz state show, then run again: a run starts from what is stored now",
        )

    def _entry(self, scope: str, key: str, text: str, version: int, project: str) -> StateEntry | None:
        try:
            payload = json.loads(text)
            if isinstance(payload, dict):
                return StateEntry(payload, str(version), project)
        except (ValueError, RecursionError):
            pass
        self._unreadable[scope, key] = version
        self._faults[f"{scope} {key}"] = Notice(
            "note",
            f"{self._link.shown} has an entry for {key} in {scope} that cannot be read; it counts as nothing stored, "
            "so a full extract follows and the next write replaces it",
            hint="put the row back from a copy before the next run to go on from where the last one ended",
        )
        return None


class _Doubt:
    """A change whose answer has not come yet; ``text`` is ``None`` for a removal."""

    __slots__ = ("expected", "text", "version")

    def __init__(self, expected: str | None, text: str | None) -> None:
        self.expected = expected
        self.text = text
        self.version = secrets.randbits(62) + 1


def _ascii(text: str) -> str:
    """JSON in ASCII, so that it fits a database of any encoding."""
    return text if text.isascii() else json.dumps(json.loads(text), separators=(",", ":"))


def _number(version: str) -> int:
    """A version as the column holds it; one that no entry can have is 0."""
    return int(version) if version.isascii() and version.isdecimal() and len(version) < 20 else 0


def _checked(scope: str, key: str) -> None:
    if not _SCOPE.fullmatch(scope):
        raise ValueError(f"{scope!r} is no scope of a state store")
    if len(scope) > _LONGEST_SCOPE or len(key) > _LONGEST_KEY:
        raise PzError(
            "PZ0536",
            f"{scope} of {key[:60]}… is too long for the state store, which takes keys of {_LONGEST_KEY} characters",
            hint="shorten the name of the connection or the entity",
        )
    if "\0" in key:
        raise PzError("PZ0536", "a key with a NUL character does not fit the state store", hint="rename the entity")

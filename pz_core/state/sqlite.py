"""The state backend ``sqlite``: one database file, for a project whose folder is not kept between runs."""

from __future__ import annotations

import errno
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from pz_core.contract.state import StateEntry
from pz_core.errors import Notice, PzError, Where
from pz_core.state import entries as shared
from pz_core.values import Value, canonical_json

VERSION = 1
DEFAULT_PATH = ".pz/state/state.sqlite"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS pz_state (
    scope TEXT NOT NULL, key TEXT NOT NULL, payload TEXT NOT NULL, version INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID
"""
_HIGHEST = "CREATE TABLE IF NOT EXISTS pz_state_counter (id INTEGER PRIMARY KEY CHECK (id = 1), last INTEGER NOT NULL)"


class SqliteState:
    """Keyed entries in a table. Versions are drawn from one counter, so none is ever used twice.

    Args:
        settings: ``path`` of the database file, relative to the project; ``.pz/state/state.sqlite`` by default.
        project_dir: folder of the project.
    """

    name: ClassVar[str] = "sqlite"

    def __init__(self, settings: Mapping[str, Value], project_dir: str) -> None:
        self._shown = str(settings.get("path") or DEFAULT_PATH)
        self._path = Path(project_dir) / self._shown
        self._connection: sqlite3.Connection | None = None
        self._mutex = threading.RLock()
        self._faults: dict[str, Notice] = {}

    @property
    def faults(self) -> tuple[Notice, ...]:
        """What was found unreadable so far, a note an entry."""
        return tuple(self._faults.values())

    def describe(self) -> str:
        """Where the state is."""
        return f"SQLite file {self._shown}"

    def read(self, scope: str, key: str) -> StateEntry | None:
        """The entry, or ``None`` if nothing is stored.

        Raises:
            PzError: PZ0518 if the file cannot be reached or is no database, PZ0519 if a newer pz wrote it, PZ0531.
        """
        return self.entries(scope).get(key)

    def entries(self, scope: str) -> Mapping[str, StateEntry]:
        """All entries of a scope by key, sorted. Raises like :meth:`read`."""
        shared.checked_scope(scope)
        if self._connection is None and not self._path.exists():
            return {}  # reading makes no file
        with self._used() as connection:
            rows = connection.execute("SELECT key, payload, version FROM pz_state WHERE scope = ?", (scope,)).fetchall()
        found = {key: self._entry(scope, key, payload, version) for key, payload, version in rows}
        return {key: entry for key in sorted(found) if (entry := found[key]) is not None}

    def write(self, scope: str, key: str, payload: Mapping[str, Value], expected: str | None) -> StateEntry:
        """Store a payload if the entry is still at version ``expected`` (``None``: still absent).

        Raises:
            PzError: PZ0520 if somebody else wrote it, else like :meth:`read`; PZ0532 if the disk is full.
            ValueError: if JSON cannot hold the payload.
        """
        text = canonical_json(payload)
        with self._changing(scope, key, expected) as connection:
            connection.execute(
                "INSERT INTO pz_state_counter VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET last = last + 1"
            )
            version = int(connection.execute("SELECT last FROM pz_state_counter").fetchone()[0])
            connection.execute("INSERT OR REPLACE INTO pz_state VALUES (?, ?, ?, ?)", (scope, key, text, version))
        self._faults.pop(f"{scope} {key}", None)
        return StateEntry(dict(payload), str(version))

    def remove(self, scope: str, key: str, expected: str) -> None:
        """Remove an entry that is still at version ``expected``.

        Raises:
            PzError: like :meth:`write`.
        """
        with self._changing(scope, key, expected) as connection:
            connection.execute("DELETE FROM pz_state WHERE scope = ? AND key = ?", (scope, key))

    def close(self) -> None:
        """Close the database."""
        with self._mutex:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # --- the database --------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self, scope: str, key: str, expected: str | None) -> Iterator[sqlite3.Connection]:
        shared.checked_scope(scope)
        with self._used() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                row = connection.execute(
                    "SELECT payload, version FROM pz_state WHERE scope = ? AND key = ?", (scope, key)
                ).fetchone()
                current = None if row is None else self._entry(scope, key, *row)
                shared.refuse_changed(scope, key, current, expected)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _used(self) -> Iterator[sqlite3.Connection]:
        with self._mutex:
            try:
                if self._connection is None:
                    self._connection = self._opened()
                yield self._connection
            except OSError as error:
                raise shared.machine_fault(error, self._path, self._shown) from error
            except sqlite3.Error as error:
                raise self._fault(error) from error

    def _opened(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self._path, timeout=shared.LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA synchronous = FULL")
            stored = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if stored > VERSION:
                raise PzError(
                    "PZ0519",
                    f"{self._shown} was written by a newer pz (version {stored}, this one knows {VERSION})",
                    hint="use that pz for this project, or choose another path: under state:",
                )
            if stored < VERSION:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_SCHEMA)
                connection.execute(_HIGHEST)
                connection.execute(f"PRAGMA user_version = {VERSION}")
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _entry(self, scope: str, key: str, text: str, version: int) -> StateEntry | None:
        try:
            payload = json.loads(text)
            if isinstance(payload, dict):
                return StateEntry(payload, str(version))
        except (ValueError, TypeError, RecursionError):
            pass
        self._faults[f"{scope} {key}"] = Notice(
            "note",
            f"{self._shown} has an entry for {key} in {scope} that cannot be read; it counts as nothing stored, so a "
            "full extract follows and the next write replaces it",
            where=Where(self._shown),
            hint="put the file back from a copy before the next run to go on from where the last one ended",
        )
        return None

    def _fault(self, error: sqlite3.Error) -> PzError:
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return shared.busy(self._shown)
        if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
            return shared.machine_fault(PermissionError(), self._path, self._shown)
        if name.startswith("SQLITE_FULL"):
            return shared.machine_fault(OSError(errno.ENOSPC, ""), self._path, self._shown)
        reason = (
            "it is no SQLite database" if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) else name or "it failed"
        )
        return PzError(
            "PZ0518",
            f"the state in {self._shown} cannot be reached: {reason}",
            hint="check path: under state:, and put the file back from a copy if it is damaged",
            cause=error,
        )

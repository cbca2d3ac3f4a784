"""Past runs in the tables ``runs``, ``run_nodes`` and ``run_events``.

Source: engine.md 6.4 and 6.6. A run that goes on holds an advisory lock of its session: the server gives it back
however the process ends, so anybody can tell a run that lives from one that was killed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pz_core.contract.state import Removal, RunHead
from pz_core.errors import PzError
from pz_core.values import quote_path
from pz_postgres.state_link import Link
from pz_postgres.state_schema import advisory_key

if TYPE_CHECKING:
    import psycopg

RUNNING = "running"


class PostgresRuns:
    """The runs of one project.

    Args:
        link: the connection of the store.
        project: name of the project; runs of others are not seen.
    """

    def __init__(self, link: Link, project: str) -> None:
        self._link = link
        self._project = project
        self._runs, self._nodes, self._events = (
            quote_path(link.schema, table).replace("%", "%%") for table in ("runs", "run_nodes", "run_events")
        )
        self._held: str | None = None
        self._holds = False

    def describe(self) -> str:
        """The table."""
        return f"{self._link.schema}.runs"

    def identity(self) -> str:
        """A digest of the server, the database and the schema."""
        return hashlib.sha256(f"{self._link.settings.place}\0{self._link.schema}".encode()).hexdigest()[:16]

    def begin(self, document: Mapping[str, Any]) -> None:
        """Store a run that starts, and hold its lock until :meth:`end` or the end of the connection.

        Raises:
            PzError: PZ0529 if a run of that id is going on elsewhere; else as the store says.
        """
        run_id = str(document["runId"])

        def begin(connection: psycopg.Connection[Any]) -> None:
            if not self._hold(connection, run_id) and self._held is None:
                raise self._taken(run_id, "is going on elsewhere")
            self._held = run_id
            self._refuse_without_rights(connection)
            self._put(connection, document, 0)

        self._link.do(begin)

    def add(self, run_id: str, first: int, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Store nodes that have ended."""

        def add(connection: psycopg.Connection[Any]) -> None:
            self._hold(connection, run_id)
            with connection.transaction():
                self._add(connection, run_id, first, nodes)

        self._link.do(add)

    def end(self, document: Mapping[str, Any]) -> None:
        """Store the whole of a run that has ended, and give its lock back."""
        run_id = str(document["runId"])

        def end(connection: psycopg.Connection[Any]) -> None:
            self._put(connection, document, 0)
            if self._held == run_id:
                self._held = None
                if self._holds:
                    self._holds = False
                    connection.execute("SELECT pg_advisory_unlock(%s)", (self._key(run_id),))

        self._link.do(end)

    def add_events(self, run_id: str, first: int, events: Sequence[Mapping[str, Any]]) -> None:
        """Store events."""
        query = (
            f"INSERT INTO {self._events} (run_id, seq, at, event, payload) VALUES (%s, %s, %s, %s, %s) "
            "ON CONFLICT DO NOTHING"
        )
        rows = [
            (run_id, first + number, _instant(event.get("at")), str(event.get("event")), _json(event))
            for number, event in enumerate(events)
        ]

        def add(connection: psycopg.Connection[Any]) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(query.encode(), rows)

        self._link.do(add)

    def heads(self) -> Sequence[RunHead]:
        """All runs of the project, newest first."""
        query = f"SELECT run_id, status FROM {self._runs} WHERE project = %s ORDER BY run_id DESC"

        def look(connection: psycopg.Connection[Any]) -> list[RunHead]:
            rows = connection.execute(query.encode(), (self._project,)).fetchall()
            return [RunHead(id, status, status == RUNNING and self._lives(connection, id)) for id, status in rows]

        return tuple(self._link.do(look))

    def documents(self, run_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """The documents of runs, by id, each as of one moment."""
        query = (
            "SELECT r.run_id, r.status, r.payload::text, "
            f"(SELECT json_agg(n.payload ORDER BY n.position) FROM {self._nodes} n WHERE n.run_id = r.run_id)::text "
            f"FROM {self._runs} r WHERE r.project = %s AND r.run_id = ANY(%s)"
        )
        rows = self._link.do(
            lambda connection: connection.execute(query.encode(), (self._project, list(run_ids))).fetchall()
        )
        found: dict[str, Mapping[str, Any]] = {}
        for run_id, status, head, nodes in rows:
            try:
                found[run_id] = {**json.loads(head), "status": status, "nodes": json.loads(nodes or "[]")}
            except (ValueError, TypeError, RecursionError):
                found[run_id] = {}  # told as one that cannot be read
        return found

    def remove(self, run_id: str) -> Removal:
        """Remove a run whole, unless it lives."""
        if run_id == self._held:
            return "live"
        query = (
            f"DELETE FROM {self._runs} WHERE run_id = %s AND project = %s "
            "AND CASE WHEN status = %s THEN pg_try_advisory_xact_lock(%s) ELSE true END"
        )
        left = f"SELECT 1 FROM {self._runs} WHERE run_id = %s AND project = %s"

        def remove(connection: psycopg.Connection[Any]) -> Removal:
            done = connection.execute(query.encode(), (run_id, self._project, RUNNING, self._key(run_id)))
            if done.rowcount:
                return "removed"
            return "live" if connection.execute(left.encode(), (run_id, self._project)).fetchone() else "absent"

        return self._link.do(remove)

    def hold(self, connection: psycopg.Connection[Any]) -> None:
        """On a new connection: take the lock of the run that goes on again."""
        self._holds = False
        if self._held is not None:
            self._hold(connection, self._held)

    # --- the tables ----------------------------------------------------------------------------------------------

    def _refuse_without_rights(self, connection: psycopg.Connection[Any]) -> None:
        """Before anything is read: what the end of the run needs, which would fail when the rows have landed."""
        state = quote_path(self._link.schema, "state")
        rights = ("SELECT", "INSERT", "UPDATE", "DELETE")
        asked = ", ".join("has_table_privilege(%s, %s)" for _ in rights)
        values = [value for right in rights for value in (state, right)]
        row = connection.execute(f"SELECT {asked}".encode(), values).fetchone()
        missing = [right for right, has in zip(rights, row or (), strict=True) if not has]
        if missing:
            raise PzError(
                "PZ0529",
                f"the state in {self._link.shown} cannot be changed: the user lacks {', '.join(missing)} on its tables",
                hint="let this user read, insert, update and delete in the tables of the schema, or use another user",
            )

    def _taken(self, run_id: str, what: str) -> PzError:
        return PzError(
            "PZ0529",
            f"the state in {self._link.shown} refused: a run {run_id} {what}",
            hint="run it again: the next run has another id",
        )

    def _key(self, run_id: str) -> int:
        return advisory_key("run", self._link.schema, run_id)

    def _hold(self, connection: psycopg.Connection[Any], run_id: str) -> bool:
        """Hold the lock if it can be had; after a lost connection the server may need a while to give it back."""
        if not self._holds:
            row = connection.execute("SELECT pg_try_advisory_lock(%s)", (self._key(run_id),)).fetchone()
            self._holds = row is not None and bool(row[0])
        return self._holds

    def _lives(self, connection: psycopg.Connection[Any], run_id: str) -> bool:
        """Whether somebody holds a run's lock: a shared one, so that two who look do not see each other."""
        row = connection.execute("SELECT pg_try_advisory_xact_lock_shared(%s)", (self._key(run_id),)).fetchone()
        return (row is None or not row[0]) or run_id == self._held

    def _put(self, connection: psycopg.Connection[Any], document: Mapping[str, Any], first: int) -> None:
        """Store a document in one transaction; nodes that are there already stay as they are."""
        head = {key: value for key, value in document.items() if key != "nodes"}
        query = (
            f"INSERT INTO {self._runs} AS r "
            "(run_id, project, status, started_at, finished_at, events_dropped, payload) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, "
            "started_at = excluded.started_at, finished_at = excluded.finished_at, "
            "events_dropped = excluded.events_dropped, payload = excluded.payload WHERE r.project = excluded.project"
        )
        values = (
            str(head["runId"]),
            self._project,
            str(head["status"]),
            _instant(head.get("startedAt")),
            _instant(head.get("finishedAt")),
            int(head.get("eventsDropped") or 0),
            _json(head),
        )
        with connection.transaction():
            if not connection.execute(query.encode(), values).rowcount:
                raise self._taken(values[0], "of another project is there already")
            self._add(connection, values[0], first, document.get("nodes") or ())

    def _add(
        self, connection: psycopg.Connection[Any], run_id: str, first: int, nodes: Sequence[Mapping[str, Any]]
    ) -> None:
        if not nodes:
            return
        query = (
            f"INSERT INTO {self._nodes} (run_id, node_id, position, name, kind, status, rows_moved, duration_ms, "
            "error_code, error_message, provenance, watermark_cursor, watermark_type, watermark_value, payload) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
        )
        with connection.cursor() as cursor:
            rows = [_node(run_id, first + number, node) for number, node in enumerate(nodes)]
            cursor.executemany(query.encode(), rows)


def _node(run_id: str, position: int, node: Mapping[str, Any]) -> tuple[Any, ...]:
    error = node.get("error") or {}
    watermark = node.get("watermark") or {}
    return (
        run_id,
        _text(node["id"]),
        position,
        _text(node["name"]),
        _text(node["kind"]),
        _text(node["status"]),
        node.get("rows"),
        node.get("durationMs"),
        _text(error.get("code")),
        _text(error.get("message")),
        _text(node.get("provenance")),
        _text(watermark.get("cursor")),
        _text(watermark.get("type")),
        _text(watermark.get("value")),
        _json(node),
    )


def _json(value: object) -> str:
    """JSON in ASCII, so that it fits a database of any encoding."""
    return json.dumps(value, separators=(",", ":"))


def _text(value: object) -> str | None:
    """A text for a column that people read; what PostgreSQL cannot hold there is spelled out."""
    if value is None:
        return None
    return str(value).replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


def _instant(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        return None

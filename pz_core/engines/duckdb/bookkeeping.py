"""What the engine notes in the run's own file beside the rows: partitions that are whole, rows that targets confirmed.

Source: engine.md 2.1 (schema ``pz_meta``, written in the transaction of the rows that it speaks of), 2.5 and 4.6.
"""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec.structs import asdict

from pz_core.contract.engine import LandTask
from pz_core.engines.duckdb.session import CATALOG, Session, Work
from pz_core.values import canonical_json, quote_literal, quote_path

META = "pz_meta"
_PARTITIONS = "partitions"
_DELIVERIES = "deliveries"
_TABLES = {
    _PARTITIONS: "relation VARCHAR, scope VARCHAR, part VARCHAR, row_count BIGINT, is_reused BOOLEAN, "
    "PRIMARY KEY (relation, part)",
    _DELIVERIES: "node VARCHAR PRIMARY KEY, confirmed BIGINT, row_count BIGINT, digest VARCHAR",
}


def prepare(session: Session, work: Work) -> None:
    """Make the tables where they are missing; several tasks may come at once."""
    with session.alone_in(META, work):
        work.run(f"CREATE SCHEMA IF NOT EXISTS {quote_path(CATALOG, META)}")
        for name, columns in _TABLES.items():
            work.run(f"CREATE TABLE IF NOT EXISTS {quote_path(CATALOG, META, name)} ({columns})")


def _has(work: Work, catalog: str, name: str) -> bool:
    return bool(
        work.count(
            "SELECT count(*) FROM duckdb_tables() "
            f"WHERE database_name = {quote_literal(catalog)} AND schema_name = {quote_literal(META)} "
            f"AND table_name = {quote_literal(name)}"
        )
    )


def scope_of(task: LandTask) -> str:
    """A digest of all that decides which rows a read yields; the connection itself is the caller's to compare."""
    read = task.read
    parts: dict[str, Any] = {
        "entity": read.entity,
        "options": read.options,
        "columns": None if read.columns is None else list(read.columns.items()),
        "bounds": None if read.bounds is None else asdict(read.bounds),
        "slice": None if task.slice is None else asdict(task.slice),
        "hints": [None if read.hints.columns is None else list(read.hints.columns), read.hints.predicate],
    }
    return hashlib.sha256(canonical_json(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class PartitionLedger:
    """The partitions of one read that are whole in staging.

    Args:
        work: whose cursor is used.
        relation: of the read.
        catalog: the file to look into.
    """

    def __init__(self, work: Work, relation: str, catalog: str = CATALOG) -> None:
        self._work = work
        self._relation = quote_literal(relation)
        self._catalog = catalog
        self._table = quote_path(catalog, META, _PARTITIONS)

    def entries(self) -> dict[str, tuple[str, int, bool]]:
        """Id -> scope, rows and whether an earlier run read it; empty where the file keeps no such ledger."""
        if not _has(self._work, self._catalog, _PARTITIONS):
            return {}
        rows = self._work.run(
            f"SELECT part, scope, row_count, is_reused FROM {self._table} WHERE relation = {self._relation}"
        ).fetchall()
        return {str(part): (str(scope), int(count), bool(reused)) for part, scope, count, reused in rows}

    def add(self, work: Work, scope: str, id: str, rows: int, *, reused: bool = False) -> None:
        """Write a partition down, in the transaction of its rows.

        Args:
            work: of that transaction.
            scope: of the read.
            id: of the partition.
            rows: how many it has.
            reused: whether an earlier run read it.
        """
        work.run(
            f"INSERT INTO {self._table} VALUES ({self._relation}, {quote_literal(scope)}, {quote_literal(id)}, "
            f"{rows}, {reused})"
        )

    def clear(self) -> None:
        """Forget all partitions of the read."""
        self._work.run(f"DELETE FROM {self._table} WHERE relation = {self._relation}")


def confirmed(work: Work, node: str, catalog: str = CATALOG) -> tuple[int, int, str] | None:
    """What a target confirmed of a delivery that broke off: its rows, and number and digest of the relation's.

    Args:
        work: whose cursor is used.
        node: id of the sink's node.
        catalog: the file to look into.
    """
    if not _has(work, catalog, _DELIVERIES):
        return None
    row = work.run(
        f"SELECT confirmed, row_count, digest FROM {quote_path(catalog, META, _DELIVERIES)} "
        f"WHERE node = {quote_literal(node)}"
    ).fetchone()
    return None if row is None else (int(row[0]), int(row[1]), str(row[2]))


def forget_confirmed(work: Work, node: str) -> None:
    """Remove the entry of a delivery; also after the task was told to stop."""
    work.cursor.execute(f"DELETE FROM {quote_path(CATALOG, META, _DELIVERIES)} WHERE node = {quote_literal(node)}")


def keep_confirmed(work: Work, node: str, rows: int, total: int, digest: str) -> None:
    """Write down how many rows of a delivery a target has confirmed; also after the task was told to stop."""
    work.cursor.execute(
        f"INSERT OR REPLACE INTO {quote_path(CATALOG, META, _DELIVERIES)} "
        f"VALUES ({quote_literal(node)}, {rows}, {total}, {quote_literal(digest)})"
    )

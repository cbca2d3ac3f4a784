"""Copy what an earlier run has landed, so that a retry reads no source again.

Sources: engine.md 1.12, COMPONENTS 1 (a read-only ATTACH reads a file and the write-ahead log beside it).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

import duckdb

from pz_core.contract.engine import ChangeCounts, LandResult, LandTask, NotReusable, Reuse, deletes_of
from pz_core.engines.duckdb.cursor import find_cursor, trim
from pz_core.engines.duckdb.session import SCHEMA, Work, staged
from pz_core.errors import PzError
from pz_core.values import quote_identifier, quote_literal, quote_path
from pz_core.values.duckdb_text import clean_message


def reuse(task: LandTask, wanted: Reuse, work: Work) -> LandResult:
    """Copy a relation out of an earlier run's file into this run's.

    Args:
        task: whose relation is to be filled.
        wanted: what to copy.
        work: of the task.

    Raises:
        NotReusable: if the rows are not there, not all there, or do not fit the task; nothing of them is visible then.
        Cancelled: if told to stop.
    """
    if not Path(wanted.staging_path).is_file():
        raise NotReusable("its staging file is gone")
    subject, target = f"{task.connection}.{task.read.entity}", staged(task.relation)
    try:
        with attached(work, wanted.staging_path, task.node.id) as catalog, work.transaction():
            work.run(f"CREATE OR REPLACE TABLE {target} AS FROM {quote_path(catalog, SCHEMA, wanted.relation)}")
            found = work.count(f"SELECT count(*) FROM {target}")
            if found != wanted.rows:
                raise NotReusable(f"{wanted.rows} rows were recorded and {found} are there")
            changes = None if task.read.capture is None else _deletes(task, wanted, catalog, found, work)
            columns = work.columns(target)
            trimmed = trim(work, target, columns, task, subject)
            cursor = find_cursor(work, target, columns, task, subject)
    except duckdb.Error as error:
        work.recognise(error)
        raise NotReusable(f"DuckDB cannot read its staging file: {clean_message(str(error))}") from error
    except PzError as error:
        raise NotReusable(f"{error.code} {error.message}") from error
    return LandResult(found, found - trimmed, columns, trimmed, task.tier, cursor=cursor, reused=True, changes=changes)


def _deletes(task: LandTask, wanted: Reuse, catalog: str, rows: int, work: Work) -> ChangeCounts:
    """Copy the keys to delete of a change capture; what came before the last change of each key is not looked at."""
    target = staged(deletes_of(task.relation))
    work.run(f"CREATE OR REPLACE TABLE {target} AS FROM {quote_path(catalog, SCHEMA, deletes_of(wanted.relation))}")
    deleted = work.count(f"SELECT count(*) FROM {target}")
    return ChangeCounts(0, rows, deleted, deleted)


@contextlib.contextmanager
def attached(work: Work, path: str, node_id: str) -> Iterator[str]:
    """The earlier file under a name of this node's own, since several nodes may copy out of one file at once."""
    catalog = f"pz_earlier_{hashlib.sha256(node_id.encode()).hexdigest()[:16]}"
    work.run(f"ATTACH {quote_literal(path)} AS {quote_identifier(catalog)} (READ_ONLY)")
    try:
        yield catalog
    finally:
        with contextlib.suppress(duckdb.Error):
            work.cursor.execute(f"DETACH {quote_identifier(catalog)}")

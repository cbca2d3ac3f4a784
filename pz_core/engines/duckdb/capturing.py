"""Changes of a capture: the last one of each key counts, either as a row to write or as a key to delete.

Source: engine.md 5.7.
"""

from __future__ import annotations

import msgspec.structs

from pz_core.contract.capture import (
    DELETE,
    DELETED_AT,
    ENVELOPE,
    GONE,
    INSERT,
    OP,
    ORDER,
    POSITION,
    SNAPSHOT,
    UPDATE,
    CaptureSource,
)
from pz_core.contract.connector import Source
from pz_core.contract.engine import ChangeCounts, DrainTask, LandResult, LandTask, deletes_of
from pz_core.engines.duckdb.loading import Batch
from pz_core.engines.duckdb.session import Work, staged
from pz_core.errors import PzError, Where
from pz_core.values import quote_identifier, quote_literal

_MARKED = quote_identifier("pz_marked")
_LAST = quote_identifier("pz_last")
_INSTANT = "TIMESTAMP WITH TIME ZONE"


def changes_of(relation: str) -> str:
    """Name of the relation in which changes land as they come."""
    return f"{relation}__changes"


def split_changes(source: Source, task: LandTask, landed: LandResult, work: Work, subject: str) -> LandResult:
    """Make the rows to write and the keys to delete from what landed, in the transaction of the landing.

    Raises:
        PzError: PZ0338 for changes that are none.
    """
    node = task.node.name
    have = {c.name for c in landed.columns}
    missing = [name for name in ENVELOPE if name not in have]
    keys = source.key_columns(task.read) if isinstance(source, CaptureSource) else ()
    if missing or not keys or not set(keys) <= have:
        lacking = ", ".join(missing) or ", ".join(k for k in keys if k not in have) or "the keys"
        raise _invalid(subject, node, f"the connector's changes lack {lacking}")
    table = staged(changes_of(task.relation))
    listed = ", ".join(quote_identifier(k) for k in keys)
    known = ", ".join(quote_literal(op) for op in (SNAPSHOT, INSERT, UPDATE, DELETE))
    holes = " OR ".join(f"{quote_identifier(k)} IS NULL" for k in keys)
    row = work.run(
        f"SELECT count(*) FILTER ({OP} IN ({quote_literal(SNAPSHOT)}, {quote_literal(INSERT)})), "
        f"count(*) FILTER ({OP} = {quote_literal(UPDATE)}), count(*) FILTER ({OP} = {quote_literal(DELETE)}), "
        f"count(*) FILTER ({OP} IS NULL OR {OP} NOT IN ({known})), count(*) FILTER ({holes}), "
        f"count(*) FILTER ({OP} <> {quote_literal(SNAPSHOT)}), max_by({POSITION}, {ORDER}) FROM {table}"
    ).fetchone()
    assert row is not None
    inserts, updates, deletes, unknown, without_key, later, position = row
    if unknown:
        raise _invalid(subject, node, f"{unknown} changes are of no known kind")
    if without_key:
        raise _invalid(subject, node, f"{without_key} changes have NULL in a key column ({', '.join(keys)})")
    own = f"* EXCLUDE ({', '.join(ENVELOPE)})"
    target, gone = staged(task.relation), staged(deletes_of(task.relation))
    if later:
        last = (
            f"(SELECT *, row_number() OVER (PARTITION BY {listed} ORDER BY {ORDER} DESC) AS {_LAST} FROM {table}) "
            f"WHERE {_LAST} = 1 AND {OP}"
        )
        own = f"* EXCLUDE ({', '.join(ENVELOPE)}, {_LAST})"
        kept = work.count(
            f"CREATE OR REPLACE TABLE {target} AS SELECT {own} FROM {last} <> {quote_literal(DELETE)} ORDER BY {ORDER}"
        )
        removed = work.count(
            f"CREATE OR REPLACE TABLE {gone} AS SELECT {listed} FROM {last} = {quote_literal(DELETE)} ORDER BY {ORDER}"
        )
    else:
        kept = work.count(f"CREATE OR REPLACE TABLE {target} AS SELECT {own} FROM {table}")
        removed = work.count(f"CREATE OR REPLACE TABLE {gone} AS SELECT {listed} FROM {table} LIMIT 0")
    counts = ChangeCounts(inserts, updates, deletes, removed, position)
    columns = work.columns(target)
    return msgspec.structs.replace(landed, rows_staged=kept, columns=columns, changes=counts)


def mark_deletes(batch: Batch, task: DrainTask, work: Work, started_at: str) -> None:
    """Add the keys to delete to a batch, told from its rows by the column :data:`GONE`.

    They go to the target with the rows, so that one transaction of the target does both.

    Raises:
        PzError: PZ0340 if the keys to delete are not the merge keys, or are not known for every deleted row.
    """
    how, keys = task.write.on_delete, task.write.keys
    if task.deletes is None or how not in ("delete", "soft"):
        return
    gone = staged(task.deletes)
    given = {c.name.casefold(): c for c in work.columns(gone)}
    own = {c.name.casefold(): c for c in batch.columns}
    if given.keys() != {k.casefold() for k in keys}:
        raise _unkeyed(
            batch,
            f"the deleted rows are known by {', '.join(c.name for c in given.values())}, and the merge keys are "
            f"{', '.join(keys)}",
        )
    if not given.keys() <= own.keys():
        return  # the strategy says that the batch lacks a key
    taken = [name for name in (GONE, DELETED_AT) if name in own]
    if taken:
        raise _unkeyed(batch, f"the batch has a column {taken[0]}, which is a name of pz's own")
    count = work.count(f"SELECT count(*) FROM {gone}")
    if not count and how == "delete":
        return
    casts = {name: f"TRY_CAST({quote_identifier(c.name)} AS {own[name].type})" for name, c in given.items()}
    lost = " OR ".join(f"{cast} IS NULL" for cast in casts.values())
    changed = " OR ".join(
        f"TRY_CAST({casts[name]} AS {c.type}) IS DISTINCT FROM {quote_identifier(c.name)}" for name, c in given.items()
    )
    bad = work.count(f"SELECT count(*) FROM {gone} WHERE {lost} OR {changed}")
    if bad:
        raise _unkeyed(batch, f"{bad} deleted rows have a key that the pipeline's type of that column cannot hold")
    names = ", ".join(quote_identifier(c.name) for c in batch.columns)
    values = ", ".join(casts.get(c.name.casefold(), f"CAST(NULL AS {c.type})") for c in batch.columns)
    none, stamp = "", ""
    if how == "soft":
        none = f", CAST(NULL AS {_INSTANT}) AS {DELETED_AT}"
        stamp = f", CAST({quote_literal(started_at)} AS {_INSTANT})"
    work.run(
        f"CREATE OR REPLACE TEMP TABLE {_MARKED} AS SELECT {names}{none}, false AS {GONE} FROM {batch.name} "
        f"UNION ALL SELECT {values}{stamp}, true FROM {gone}"
    )
    batch.marked(_MARKED, work.columns(_MARKED), GONE, count)


def _invalid(subject: str, node: str, why: str) -> PzError:
    return PzError("PZ0338", f"{subject}: {why}", where=Where(node=node), hint="report it to the connector's authors")


def _unkeyed(batch: Batch, why: str) -> PzError:
    return PzError(
        "PZ0340",
        f"{batch.subject}: deletes cannot be applied: {why}",
        where=Where(node=batch.node),
        hint="let keys: be the key columns of the captured table, under their own names and in their own types; "
        "on_delete: 'ignore' leaves deleted rows in the target",
    )

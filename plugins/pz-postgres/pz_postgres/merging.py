"""A merge in one statement, where that is sure to leave in the table what the strategy's two statements would.

``INSERT … ON CONFLICT`` looks a key up while it inserts, which is quicker than to sort the batch twice and join it with
the table twice. But it proposes every row for insertion first, and goes by what an index holds equal: triggers,
defaults, other unique indexes and types that keep one number in two forms can make something else of it. So a table
must have none of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pz_core.contract.connector import ConnectorError
from pz_core.contract.strategy import Upsert, UpsertStatement
from pz_core.values import quote_identifier
from pz_postgres.control import ask
from pz_postgres.names import TableName
from pz_postgres.staging import Carried

if TYPE_CHECKING:
    import psycopg

_INTEGERS = ("smallint", "integer", "bigint")
#: A key's type -> types beside the target whose values are compared as the index compares them. Of all of these two
#: equal values are the same value, so it does not matter which of them a check or a partition sees.
_KEPT_ALIKE: dict[str, tuple[str, ...]] = {
    "int2": _INTEGERS,
    "int4": _INTEGERS,
    "int8": _INTEGERS,
    "bool": ("boolean",),
    "text": ("text",),
    "varchar": ("text",),
    "uuid": ("uuid",),
    "bytea": ("bytea",),
    "date": ("date",),
    "time": ("time",),
    "timestamp": ("timestamp",),
    "timestamptz": ("timestamptz",),
}

#: The columns of the one unique index of a table (of the table and all its partitions), with the number of them; no
#: row where there is anything at which one statement and two could part:
#: - Inheritance: a unique index does not span children.
#: - Triggers: they fire for rows that are only proposed. Those of foreign keys look at what is there in the end; but
#:   a row may refer to one of the same batch, which only one statement would have inserted in time.
#: - Another unique index, or an exclusion: the order of rows can trip it. So it can a check that calls a function,
#:   which may look at the table.
#: - Texts that the server keeps in fewer characters than UTF-8 has.
#: - A column that is not written: a default would be made for a row that is only proposed.
#: - ``excluded.c`` needs the right to read c. And servers have asked for a replica identity only where it says UPDATE.
_ONE_KEY = """
WITH target AS (
  SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = %s AND c.relname = %s),
tree AS (
  SELECT oid FROM target
  UNION SELECT p.relid::pg_catalog.oid FROM target, pg_catalog.pg_partition_tree(target.oid::pg_catalog.regclass) p)
SELECT a.attname::text, t.typname::text, a.atttypmod, i.indnkeyatts
FROM target
JOIN pg_catalog.pg_index i ON i.indrelid = target.oid AND i.indisunique AND i.indisvalid AND i.indisready
  AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
JOIN pg_catalog.pg_am m ON m.oid = x.relam AND m.amname = 'btree'
CROSS JOIN LATERAL unnest(
  i.indkey::pg_catalog.int2[], i.indclass::pg_catalog.oid[], i.indcollation::pg_catalog.oid[])
  WITH ORDINALITY AS k(attnum, opclass, coll, place)
JOIN pg_catalog.pg_attribute a ON a.attrelid = target.oid AND a.attnum = k.attnum
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
JOIN pg_catalog.pg_namespace s ON s.oid = t.typnamespace AND s.nspname = 'pg_catalog'
JOIN pg_catalog.pg_opclass o ON o.oid = k.opclass AND o.opcdefault
WHERE k.place <= i.indnkeyatts
  AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_collation l WHERE l.oid IN (k.coll, a.attcollation) AND NOT l.collisdeterministic)
  AND (t.typname NOT IN ('text', 'varchar') OR pg_catalog.current_setting('server_encoding') = 'UTF8')
  AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_depend d
      ON d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND d.objid = k.oid
      AND d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass
    WHERE k.contype = 'c' AND (k.conrelid = 0 OR k.conrelid IN (SELECT oid FROM tree)))
  AND pg_catalog.has_table_privilege(target.oid, 'SELECT')
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubupdate)
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhrelid = target.oid)
  AND NOT EXISTS (
    SELECT FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid LEFT JOIN pg_catalog.pg_am h ON h.oid = c.relam
    WHERE c.relkind NOT IN ('r', 'p') OR c.relrowsecurity OR c.relhasrules
      OR c.relkind = 'r' AND (c.relhassubclass OR h.amname <> 'heap')
      OR pg_catalog.strpos(pg_catalog.array_to_string(c.reloptions, ' '), 'user_catalog_table') > 0
      OR (SELECT pg_catalog.count(*) FROM pg_catalog.pg_index u
          WHERE u.indrelid = c.oid AND (u.indisunique OR u.indisexclusion)) <> 1)
  AND NOT EXISTS (
    SELECT FROM tree JOIN pg_catalog.pg_trigger g ON g.tgrelid = tree.oid
    LEFT JOIN pg_catalog.pg_constraint f ON f.oid = g.tgconstraint
    WHERE f.contype IS DISTINCT FROM 'f')
  AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_constraint f WHERE f.contype = 'f'
      AND f.conrelid IN (SELECT oid FROM tree) AND f.confrelid IN (SELECT oid FROM tree))
  AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_attribute w
    WHERE w.attrelid = target.oid AND w.attnum > 0 AND NOT w.attisdropped
      AND (w.attidentity = 'a' OR w.attgenerated = '' AND w.attname::text <> ALL (%s::pg_catalog.text[])))
"""


class OneStatement(UpsertStatement):
    """An upsert in one statement; its own are to be run where the table turns out not to be one for that."""


def folded(program: tuple[str, ...]) -> tuple[str, ...]:
    """A program with the statements of an upsert in one, where it begins with them.

    What stands before them may be what gives the table its shape, after which nothing is sure any more.
    """
    first = program[0] if program else ""
    if not isinstance(first, UpsertStatement):
        return program
    whole = first.upsert.statements()
    if program[: len(whole)] != whole:
        return program
    return (OneStatement(_on_conflict(first.upsert), first.upsert), *program[len(whole) :])


def is_sure(
    connection: psycopg.Connection[Any], name: TableName, upsert: Upsert, carried: Sequence[Carried], subject: str
) -> bool:
    """Whether one statement does what two would. To be asked behind a lock that keeps the table from being altered.

    It leaves nothing behind, and a server that does not answer it makes it only unsure.
    """
    import psycopg

    try:
        with connection.transaction(force_rollback=True):
            # Operators are looked up there too. Its joins stand in a good order; to look for a better one takes long.
            connection.execute("SET LOCAL search_path = pg_catalog")
            connection.execute("SET LOCAL join_collapse_limit = 1")
            connection.execute("SET LOCAL from_collapse_limit = 1")
            found = ask(connection, _ONE_KEY, (name.schema, name.table, list(upsert.columns)), subject)
    except (ConnectorError, psycopg.Error):
        return False  # where the connection is lost, the next statement tells it
    beside = {c.name: c.raw for c in carried if c.read is None}
    return (
        bool(found)
        and {str(r[0]) for r in found} == set(upsert.keys)
        and len(found) == int(found[0][3])
        and all(_kept_alike(str(r[1]), int(r[2]), beside.get(str(r[0]), "")) for r in found)
    )


def _kept_alike(kind: str, modifier: int, beside: str) -> bool:
    # A numeric of a fixed scale keeps every number in one form.
    if kind == "numeric" and modifier >= 4:
        return beside.startswith("numeric(") or beside in _INTEGERS
    return beside in _KEPT_ALIKE.get(kind, ())


def _on_conflict(upsert: Upsert) -> str:
    fields = ", ".join(map(quote_identifier, upsert.columns))
    keys = ", ".join(map(quote_identifier, upsert.keys))
    others = [quote_identifier(n) for n in upsert.columns if n not in upsert.keys]
    sets = ", ".join(f"{name} = excluded.{name}" for name in others)
    return (
        # Named, because a table may be called "excluded" itself.
        f"INSERT INTO {upsert.target} AS pz_target ({fields}) "
        # Its keys are of types for which both mean the same by equal (_KEPT_ALIKE).
        f"SELECT {fields} FROM {upsert.distinct or upsert.rows} AS pz_batch "
        f"ON CONFLICT ({keys}) DO {f'UPDATE SET {sets}' if sets else 'NOTHING'}"
    )

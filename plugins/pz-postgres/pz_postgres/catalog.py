"""What the server says of a table or a query: columns with the types behind their domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pz_core.contract.connector import ConnectorError
from pz_core.values import quote_literal
from pz_postgres.control import ask, statement_error
from pz_postgres.names import TableName

if TYPE_CHECKING:
    import psycopg


class PgColumn(Struct, frozen=True):
    """A column.

    Args:
        name: as PostgreSQL keeps it.
        shown: its type as PostgreSQL spells it.
        base: name of the type behind any domain; of an array the type of its elements.
        modifier: the type's modifier, -1 for none.
        array: whether it is an array of ``base``.
        kind: ``b`` base, ``e`` enum, ``c`` composite, ``r`` range, ``m`` multirange.
        system: whether the type is PostgreSQL's own.
        domain: whether a domain lies between.
        deterministic: whether equal texts are the same bytes.
        needed: whether it takes no NULL and has no default.
        generated: whether its value cannot be given.
    """

    name: str
    shown: str
    base: str
    modifier: int = -1
    array: bool = False
    kind: str = "b"
    system: bool = True
    domain: bool = False
    deterministic: bool = True
    needed: bool = False
    generated: bool = False


class PgTable(Struct, frozen=True):
    """A table or a view as a load meets it.

    Args:
        columns: in order.
        plain: whether rows can be copied straight into it, with every row that is sent stored or refused.
        version: of the server, such as 160002.
        shared: a digest of what the table's schema holds, where DuckDB's extension may read the table over several
            connections. It may where this is an ordinary table, whose name means nothing else where case does not
            count, on a server that lets all of them in and shows them one moment. The extension reads the types of a
            whole schema once for each attached database, so every state of the schema needs one of its own.
    """

    columns: tuple[PgColumn, ...]
    plain: bool
    version: int
    shared: str | None = None


#: The types that are named in the relation d (given, given_mod, oid, typmod, domain), behind their domains.
_BEHIND = """
  SELECT d.given, d.given_mod, t.typbasetype, CASE WHEN d.typmod = -1 THEN t.typtypmod ELSE d.typmod END, true
  FROM d JOIN pg_catalog.pg_type t ON t.oid = d.oid WHERE t.typtype = 'd'"""
_TYPED = """d.given::int8 AS given, d.given_mod, pg_catalog.format_type(d.given, d.given_mod) AS shown,
       d.typmod, d.domain, e.oid IS NOT NULL AS in_array, coalesce(e.typname, t.typname)::text AS base,
       coalesce(e.typtype, t.typtype)::text AS kind, n.nspname = 'pg_catalog' AS system"""
_TYPE_JOINS = """JOIN pg_catalog.pg_type t ON t.oid = d.oid
LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
JOIN pg_catalog.pg_namespace n ON n.oid = coalesce(e.typnamespace, t.typnamespace)
WHERE t.typtype <> 'd'"""

_TYPES = f"""
WITH RECURSIVE d AS (
  SELECT u.o AS given, u.m AS given_mod, u.o AS oid, u.m AS typmod, false AS domain
  FROM unnest(%s::pg_catalog.oid[], %s::pg_catalog.int4[]) AS u(o, m)
  UNION ALL{_BEHIND})
SELECT {_TYPED}
FROM d {_TYPE_JOINS}
"""

#: One statement, since a server may be far; every column has a name, since DuckDB asks for it, too. What
#: :func:`_column` takes of a type comes first.
_TABLE = f"""
WITH RECURSIVE a AS (
  SELECT a.attnum, a.attname::text AS name, a.atttypid, a.atttypmod, a.attcollation,
         a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AS needed, a.attgenerated <> '' AS generated,
         c.relkind IN ('r', 'p') AND NOT c.relrowsecurity AND NOT c.relhasrules AND NOT EXISTS (
           SELECT FROM pg_catalog.pg_trigger t
           WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgtype & 3 = 3) AS plain
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  WHERE n.nspname = {{schema}} AND c.relname = {{table}} AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
), d AS (
  SELECT DISTINCT a.atttypid AS given, a.atttypmod AS given_mod, a.atttypid AS oid, a.atttypmod AS typmod,
         false AS domain
  FROM a
  UNION ALL{_BEHIND}
), k AS (
  SELECT {_TYPED}
  FROM d {_TYPE_JOINS})
SELECT k.*, a.name, coalesce(l.collisdeterministic, true) AS deterministic, a.needed, a.generated, a.plain,
       pg_catalog.current_setting('server_version_num')::int4 AS version, {{shared}} AS shared
FROM a
JOIN k ON k.given = a.atttypid::int8 AND k.given_mod = a.atttypmod
LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
ORDER BY a.attnum
"""

_SHARED = """(
  SELECT (SELECT pg_catalog.md5(pg_catalog.string_agg(
                   pg_catalog.concat_ws(' ', o.oid, o.relname, t.attnum, t.xmin), ' ' ORDER BY o.oid, t.attnum))
          FROM pg_catalog.pg_class o JOIN pg_catalog.pg_attribute t ON t.attrelid = o.oid AND t.attnum > 0
          WHERE o.relnamespace = n.oid AND o.relkind IN ('r', 'p', 'v', 'm', 'f'))
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = {schema} AND c.relname = {table} AND c.relkind = 'r' AND NOT c.relhassubclass
    AND c.relam IN (SELECT oid FROM pg_catalog.pg_am WHERE amname = 'heap')
    AND NOT pg_catalog.pg_is_in_recovery()
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_settings WHERE name LIKE 'rds%')
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = session_user AND rolconnlimit >= 0)
    AND NOT EXISTS (
      SELECT FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database() AND datconnlimit >= 0)
    AND NOT EXISTS (
      SELECT FROM pg_catalog.pg_class o JOIN pg_catalog.pg_namespace m ON m.oid = o.relnamespace
      WHERE o.oid <> c.oid AND lower(o.relname) = lower(c.relname) AND lower(m.nspname) = lower(n.nspname)))"""


def table_query(name: TableName, *, shared: bool = False) -> str:
    """The statement whose rows :func:`table_of` takes.

    Args:
        name: of the table.
        shared: whether to ask for :attr:`PgTable.shared`, too.
    """
    names = {"schema": quote_literal(name.schema), "table": quote_literal(name.table)}
    return _TABLE.format(**names, shared=_SHARED.format(**names) if shared else "NULL::text")


def table_of(rows: Sequence[tuple[Any, ...]], subject: str) -> PgTable | None:
    """A table as the catalog has it; ``None`` if there is none of that name.

    Raises:
        ConnectorError: if two of its columns have one name, case aside.
    """
    if not rows:
        return None
    columns = tuple(_column(r[9], r, deterministic=r[10], needed=r[11], generated=r[12]) for r in rows)
    _refuse_twins([c.name for c in columns], subject)
    return PgTable(columns, all(r[13] for r in rows), int(rows[0][14]), rows[0][15])


def describe_table(
    connection: psycopg.Connection[Any], name: TableName, subject: str, *, shared: bool = False
) -> PgTable | None:
    """A table as the catalog has it; ``None`` if there is none of that name.

    Args:
        connection: to ask over.
        name: of the table.
        subject: ``connection.entity``, for messages.
        shared: whether to ask for :attr:`PgTable.shared`, too.

    Raises:
        ConnectorError: what the server said, or if two columns have one name, case aside.
    """
    return table_of(ask(connection, table_query(name, shared=shared), (), subject), subject)


def describe_query(connection: psycopg.Connection[Any], query: str, subject: str) -> PgTable:
    """The columns of a query, which is prepared and not run."""
    import psycopg

    try:
        cursor = connection.execute(f"SELECT * FROM ({query}\n) AS pz_rows LIMIT 0".encode())
    except psycopg.Error as error:
        raise statement_error(error, subject) from error
    found = [(c.name, int(c.type_code), c._fmod) for c in cursor.description or ()]
    _refuse_twins([name for name, _, _ in found], subject)
    types = _types(connection, [(oid, modifier) for _, oid, modifier in found], subject)
    columns = tuple(_column(name, types[oid, modifier]) for name, oid, modifier in found)
    return PgTable(columns, False, connection.info.server_version)


def _types(
    connection: psycopg.Connection[Any], wanted: Sequence[tuple[int, int]], subject: str
) -> dict[tuple[int, int], tuple[Any, ...]]:
    unique = sorted(set(wanted))
    rows = ask(connection, _TYPES, ([o for o, _ in unique], [m for _, m in unique]), subject)
    return {(int(r[0]), int(r[1])): r for r in rows}


def _column(
    name: str, found: tuple[Any, ...], *, deterministic: bool = True, needed: bool = False, generated: bool = False
) -> PgColumn:
    return PgColumn(
        name=name,
        shown=str(found[2]),
        base=str(found[6]),
        modifier=int(found[3]),
        array=bool(found[5]),
        kind=str(found[7]),
        system=bool(found[8]),
        domain=bool(found[4]),
        deterministic=bool(deterministic),
        needed=bool(needed),
        generated=bool(generated),
    )


def _refuse_twins(names: Sequence[str], subject: str) -> None:
    """PostgreSQL tells ``a`` and ``A`` apart, and DuckDB does not."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other is not name:
            raise ConnectorError(
                f"{subject}: columns '{other}' and '{name}' have one name, case aside",
                hint="read them with a query: that gives each a name of its own",
            )

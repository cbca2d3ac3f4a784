"""A strategy's program and the DDL in another dialect: one definition, transpiled.

Sources: COMPONENTS 6 (what sqlglot 30 does and does not tell).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pz_core.errors import PzError

#: DuckDB types that a dialect spells in a way that sqlglot does not know, as exact ones.
_TYPES: dict[str, dict[str, str]] = {
    "postgres": {
        "HUGEINT": "DECIMAL(39, 0)",
        "INT128": "DECIMAL(39, 0)",
        "UHUGEINT": "DECIMAL(39, 0)",
        "UINT128": "DECIMAL(39, 0)",
        "UBIGINT": "DECIMAL(20, 0)",
        "UINTEGER": "BIGINT",
        "UINT": "BIGINT",
        "USMALLINT": "INTEGER",
        "UTINYINT": "SMALLINT",
        "TINYINT": "SMALLINT",
        "TIMESTAMP_S": "TIMESTAMP",
        "TIMESTAMP_MS": "TIMESTAMP",
        "TIMESTAMP_NS": "TIMESTAMP",
        "ENUM": "TEXT",
        "BIT": "VARBIT",
    }
}

#: Of those, the ones that DuckDB has no name for.
_FOREIGN = frozenset({"VARBIT"})

_QUOTED = r'"(?:[^"]|"")+"'
_NAME = rf"(?:{_QUOTED}|[a-z_][a-z0-9_]*)"
_PATH, _NAMES, _FIELD = rf"{_NAME}(?:\.{_NAME})*", rf"{_QUOTED}(?:, {_QUOTED})*", rf"{_QUOTED}\.{_QUOTED}"
_FIELDS, _PAIRED = rf"{_FIELD}(?:, {_FIELD})*", rf"{_FIELD} = {_FIELD}(?: AND {_FIELD} = {_FIELD})*"
#: The last row of each key, as ``merge`` asks for it.
_LAST = (
    rf"\(SELECT {_NAMES} FROM \(SELECT {_NAMES}, row_number\(\) OVER \(PARTITION BY {_NAMES} ORDER BY {_NAME} DESC "
    rf"NULLS LAST\) AS {_QUOTED} FROM {_PATH}(?: WHERE NOT {_QUOTED})?\) AS {_QUOTED} WHERE {_QUOTED} = 1\)"
)
_GONE = rf"(?:{_QUOTED}|\({_NAMES}\)) IN \(SELECT {_NAMES} FROM {_PATH} WHERE {_QUOTED}\)"
_STAMP = r"CAST\('[^'\\]*' AS TIMESTAMP WITH TIME ZONE\)"
#: What most loads consist of, the shortest first. Where names are quoted alike, it reads the same, and a parser takes
#: long to load. Texts, because the longer patterns take long to make, and most loads need none of those.
_ALIKE: dict[str, tuple[str, ...]] = {
    "postgres": (
        rf"INSERT INTO {_PATH} \({_NAMES}\) SELECT {_NAMES} FROM {_PATH}",
        rf"DELETE FROM {_PATH}(?: WHERE {_GONE})?",
        rf"UPDATE {_PATH} SET {_QUOTED} = {_STAMP} WHERE {_QUOTED} IS NULL AND {_GONE}",
        rf"UPDATE {_PATH} AS {_QUOTED} SET {_QUOTED} = {_FIELD}(?:, {_QUOTED} = {_FIELD})* "
        rf"FROM {_LAST} AS {_QUOTED} WHERE {_PAIRED}",
        rf"INSERT INTO {_PATH} \({_NAMES}\) SELECT {_FIELDS} FROM {_LAST} AS {_QUOTED} "
        rf"WHERE NOT EXISTS \(SELECT 1 FROM {_PATH} AS {_QUOTED} WHERE {_PAIRED}\)",
    )
}


def translate(statements: Sequence[str], dialect: str) -> tuple[str, ...]:
    """Statements in DuckDB's SQL, in another dialect. One that reads the same there is handed on as it is.

    Raises:
        PzError: PZ0324 if the dialect has no way to say one of them.
    """
    if dialect == "duckdb":
        return tuple(statements)
    alike = _ALIKE.get(dialect, ())
    made: list[str] = []
    for sql in statements:
        made += (sql,) if any(re.fullmatch(shape, sql) for shape in alike) else _transpiled(sql, dialect)
    return tuple(made)


def _transpiled(sql: str, dialect: str) -> list[str]:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    types = _TYPES.get(dialect, {})

    def exact(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.DataType) and isinstance(node.this, exp.DataType.Type) and node.this.name in types:
            if types[node.this.name] in _FOREIGN:
                return exp.DataType(this=exp.DataType.Type.USERDEFINED, kind=types[node.this.name])
            return exp.DataType.build(types[node.this.name], dialect="duckdb")
        return node

    level = sqlglot.ErrorLevel.RAISE
    try:
        trees = [tree for tree in sqlglot.parse(sql, read="duckdb") if tree is not None]
        return [tree.transform(exact).sql(dialect=dialect, unsupported_level=level) for tree in trees]
    except (SqlglotError, ValueError) as error:
        raise PzError(
            "PZ0324",
            f"a statement of the strategy cannot be said in the SQL of '{dialect}'",
            hint="choose another strategy for this connection, or report it to the strategy's authors",
            cause=error,
        ) from error

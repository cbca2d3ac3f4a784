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

_NAME = r'(?:"(?:[^"]|"")+"|[a-z_][a-z0-9_]*)'
_PATH, _NAMES = rf"{_NAME}(?:\.{_NAME})*", rf"{_NAME}(?:, {_NAME})*"
#: What most loads consist of. Where names are quoted alike, it reads the same, and a parser takes long to load.
_ALIKE: dict[str, re.Pattern[str]] = {
    "postgres": re.compile(
        rf"DELETE FROM {_PATH}|INSERT INTO {_PATH} \({_NAMES}\) SELECT {_NAMES} FROM {_PATH}", re.DOTALL
    )
}


def translate(statements: Sequence[str], dialect: str) -> tuple[str, ...]:
    """Statements in DuckDB's SQL, in another dialect.

    Raises:
        PzError: PZ0324 if the dialect has no way to say one of them.
    """
    alike = _ALIKE.get(dialect)
    if dialect == "duckdb" or (alike is not None and all(alike.fullmatch(sql) for sql in statements)):
        return tuple(statements)
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

    made: list[str] = []
    try:
        for sql in statements:
            for tree in sqlglot.parse(sql, read="duckdb"):
                if tree is not None:
                    level = sqlglot.ErrorLevel.RAISE
                    made.append(tree.transform(exact).sql(dialect=dialect, unsupported_level=level))
    except (SqlglotError, ValueError) as error:
        raise PzError(
            "PZ0324",
            f"a statement of the strategy cannot be said in the SQL of '{dialect}'",
            hint="choose another strategy for this connection, or report it to the strategy's authors",
            cause=error,
        ) from error
    return tuple(made)

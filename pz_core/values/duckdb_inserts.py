"""The guard against rows that DuckDB 1.5.5 loses without a word.

Where an INSERT whose source turned out to be empty is followed, in one transaction and on one table, by an INSERT that
fills a row group (122,880 rows), the rows of the second one are gone at the commit, as long as the connection keeps the
order of rows. Not to keep it helps only if that is said before the first of the two.
"""

from __future__ import annotations

from typing import Any

#: To run before the first INSERT of a program of several. Nobody may rely on the order of a table.
UNORDERED = "SET SESSION preserve_insertion_order = false"
#: To run before rows are staged whose order counts: one INSERT for each batch, and none for an empty one.
ORDERED = "SET SESSION preserve_insertion_order = true"


def holds_insert(cursor: Any, sql: str) -> bool:
    """Whether a text holds an INSERT.

    Args:
        cursor: a DuckDB connection, for its parser.
        sql: one or more statements.

    Raises:
        duckdb.Error: if the text cannot be parsed.
    """
    import duckdb

    return any(statement.type == duckdb.StatementType.INSERT for statement in cursor.extract_statements(sql))

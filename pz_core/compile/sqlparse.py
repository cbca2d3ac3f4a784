"""DuckDB's own parser, asked for the tree of a query; no text of SQL is ever judged by its looks."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pz_core.values import quote_literal
from pz_core.values.asking import asking_connection

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: A node of DuckDB's tree: what ``json_serialize_sql`` gives.
Tree = dict[str, Any]

#: DuckDB's word for a place that it does not know.
UNKNOWN_LOCATION = 2**64 - 1

#: Parts of an expression that make one value of one row, if their own parts do.
_ROW_BY_ROW = frozenset(
    {
        "BETWEEN",
        "CASE",
        "CAST",
        "COLLATE",
        "COLUMN_REF",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "FUNCTION",
        "LAMBDA",
        "OPERATOR",
        "STAR",
    }
)

#: Names that mean where a query runs, not what it reads.
_OF_THE_PLACE = frozenset(
    {
        "rowid",
        "current_catalog",
        "current_connection_id",
        "current_database",
        "current_query",
        "current_query_id",
        "current_schema",
        "current_schemas",
        "current_setting",
        "current_transaction_id",
        "in_search_path",
        "txid_current",
    }
)

_lock = threading.Lock()
_connection: DuckDBPyConnection | None = None
_scalars: frozenset[str] | None = None


class NotParsed(Exception):
    """DuckDB refused the text; the message is the first line of its own."""


def parse(sql: str) -> list[Tree]:
    """The query nodes of all statements in a text.

    Raises:
        NotParsed: if it does not parse, or is no query.
    """
    try:
        answer = json.loads(_serialized(sql))
    except RecursionError:
        raise NotParsed("it is nested too deeply") from None
    if answer.get("error", True):
        message = str(answer.get("error_message") or "the text is no query").splitlines()[0]
        raise NotParsed("it is no single query" if "Only SELECT" in message else message)
    return [statement["node"] for statement in answer["statements"]]


def one_row_each(items: list[Tree]) -> bool:
    """Whether a select list makes exactly one row of each row: no aggregate, no window, no ``unnest``, no subquery.

    ``rowid`` counts as unfit, too: only a table has it. So does whatever asks DuckDB where it is.
    """
    todo: list[Any] = list(items)
    while todo:
        at = todo.pop()
        if isinstance(at, list):
            todo.extend(at)
        elif isinstance(at, dict):
            kind = at.get("class")
            if kind is not None and kind not in _ROW_BY_ROW:
                return False
            if kind == "COLUMN_REF" and str(at["column_names"][-1]).lower() in _OF_THE_PLACE:
                return False
            if kind == "FUNCTION" and not at.get("is_operator") and str(at["function_name"]).lower() not in _scalar():
                return False
            todo.extend(at.values())
    return True


def _scalar() -> frozenset[str]:
    """Names that mean functions of one row's values and nothing else. DuckDB is asked once."""
    global _scalars
    if _scalars is None:
        sql = "SELECT function_name FROM duckdb_functions() GROUP BY 1 HAVING bool_and(function_type = 'scalar')"
        with _lock:
            names = frozenset(str(row[0]).lower() for row in _asked().execute(sql).fetchall())
        # The binder alone knows unnest; it is named in case that a later DuckDB lists it.
        _scalars = names - _OF_THE_PLACE - {"unnest"}
    return _scalars


def _asked() -> DuckDBPyConnection:
    """The parser's own connection; the caller holds the lock."""
    global _connection
    if _connection is None:
        _connection = asking_connection()
        _connection.execute("PRAGMA disable_optimizer")
    return _connection


def _serialized(sql: str) -> str:
    """DuckDB's answer, as JSON."""
    import duckdb

    # A literal and not a parameter: binding one makes the client look for modules that are not there, call by call.
    # What has its default value is left out of the answer, which halves it.
    question = (
        f"SELECT json_serialize_sql({quote_literal(sql)}, skip_null := true, skip_empty := true, skip_default := true)"
    )
    with _lock:
        try:
            row = _asked().execute(question).fetchone()
        except (duckdb.Error, UnicodeError, ValueError, RuntimeError):
            row = None
    if row is None or not isinstance(row[0], str):
        raise NotParsed("the text holds characters that no SQL has")
    return row[0]


def shape(tree: Any) -> str:
    """A tree without its places, as text that can be compared."""
    return json.dumps(_bare(tree), sort_keys=True)


def _bare(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _bare(value) for key, value in tree.items() if key != "query_location"}
    if isinstance(tree, list):
        return [_bare(item) for item in tree]
    return tree


def same(left: Any, right: Any, replaced: Mapping[int, Tree] | None = None) -> bool:
    """Whether two trees mean the same text, wherever it stands.

    Args:
        left: a tree.
        right: the other one.
        replaced: ``id`` of a node on the left -> what the right has in its place.
    """
    if isinstance(left, dict):
        if replaced and id(left) in replaced:
            return same(replaced[id(left)], right)
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        return all(
            key == "query_location" or (key in right and same(value, right[key], replaced))
            for key, value in left.items()
        )
    if isinstance(left, list):
        return (
            isinstance(right, list)
            and len(left) == len(right)
            and all(same(a, b, replaced) for a, b in zip(left, right, strict=True))
        )
    return bool(left == right)

"""Conjuncts of a WHERE that a source may apply by itself, printed anew over the source's own columns.

Only shapes that cannot fail on a row: a bare column compared with constants, ``IN``, ``BETWEEN``, ``LIKE``,
``IS NULL``, and ``AND``, ``OR``, ``NOT`` of those. What is printed is parsed again
and must give the very tree that was judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from pz_core.compile.sqlparse import NotParsed, Tree, parse, shape
from pz_core.values import quote_identifier, quote_literal

#: Gives the source's own column behind a reference, ``None`` for anything that is not surely one.
Resolve = Callable[[Sequence[str]], str | None]

_COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}
_LIKES = {"~~": "LIKE", "!~~": "NOT LIKE"}
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?)?")
_INTEGERS = frozenset({"INTEGER", "BIGINT"})
_MOST_DIGITS = 18
#: Types that a constant may be cast to -> what it then is.
_CASTS = {
    "INTEGER": "integer",
    "BIGINT": "integer",
    "DOUBLE": "double",
    "VARCHAR": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
}
#: Marks of text that pz puts values in for when a pipeline runs.
_SENTINEL = "__pz_"


class _No(Exception):
    """A shape that stays in the pipeline."""


class Conjunct:
    """A condition as a source gets it.

    Args:
        tree: the condition in DuckDB's tree.
        resolve: names the column behind a reference.

    Attributes:
        text: the condition in SQL; ``None`` if it has to stay in the pipeline.
        needs: column -> what it is compared with.
    """

    def __init__(self, tree: Tree, resolve: Resolve) -> None:
        self._resolve = resolve
        self._columns: dict[int, str] = {}
        self.needs: dict[str, set[str]] = {}
        self.text: str | None = None
        try:
            text = self._condition(tree)
            [printed] = parse(f"SELECT * FROM pz_rows WHERE {text}")
        except (_No, NotParsed, ValueError):
            return
        if shape(self._expected(tree)) == shape(printed.get("where_clause")):
            self.text = text

    def _expected(self, item: Any) -> Any:
        """The condition with the source's own columns, as the parser should see it."""
        if isinstance(item, list):
            return [self._expected(part) for part in item]
        if not isinstance(item, dict):
            return item
        made = {key: self._expected(value) for key, value in item.items()}
        return {**made, "column_names": [self._columns[id(item)]]} if id(item) in self._columns else made

    def _condition(self, tree: Tree) -> str:
        kind, word = tree.get("class"), str(tree.get("type"))
        if kind == "CONJUNCTION" and word in ("CONJUNCTION_AND", "CONJUNCTION_OR"):
            return f" {word[-3:].strip('_')} ".join(f"({self._condition(child)})" for child in tree["children"])
        if kind == "COMPARISON" and word in _COMPARISONS:
            return self._comparison(tree, _COMPARISONS[word])
        if kind == "BETWEEN":
            column = self._column(tree["input"])
            lower, upper = self._constant(column, tree["lower"]), self._constant(column, tree["upper"])
            return f"{quote_identifier(column)} BETWEEN {lower} AND {upper}"
        if kind == "FUNCTION" and tree.get("function_name") in _LIKES and len(tree.get("children", ())) == 2:
            column = self._column(tree["children"][0])
            pattern = self._constant(column, tree["children"][1])
            self._need(column, "text")
            return f"{quote_identifier(column)} {_LIKES[tree['function_name']]} {pattern}"
        if kind == "OPERATOR":
            return self._operator(word, tree.get("children", []))
        raise _No

    def _comparison(self, tree: Tree, operator: str) -> str:
        left, right = tree["left"], tree["right"]
        if left.get("class") == "COLUMN_REF":
            column = self._column(left)
            return f"{quote_identifier(column)} {operator} {self._constant(column, right)}"
        column = self._column(right)
        return f"{self._constant(column, left)} {operator} {quote_identifier(column)}"

    def _operator(self, word: str, children: list[Tree]) -> str:
        if word == "OPERATOR_NOT" and len(children) == 1:
            return f"NOT ({self._condition(children[0])})"
        if word in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL") and len(children) == 1:
            column = self._column(children[0])
            self._need(column, "any")
            return f"{quote_identifier(column)} {'IS NULL' if word == 'OPERATOR_IS_NULL' else 'IS NOT NULL'}"
        if word in ("COMPARE_IN", "COMPARE_NOT_IN") and len(children) > 1:
            column = self._column(children[0])
            listed = ", ".join(self._constant(column, child) for child in children[1:])
            return f"{quote_identifier(column)} {'IN' if word == 'COMPARE_IN' else 'NOT IN'} ({listed})"
        raise _No

    def _column(self, tree: Tree) -> str:
        names = tree.get("column_names") if tree.get("class") == "COLUMN_REF" else None
        column = self._resolve(names) if names else None
        if column is None:
            raise _No
        self._columns[id(tree)] = column
        return column

    def _need(self, column: str, what: str) -> None:
        self.needs.setdefault(column, set()).add(what)

    def _constant(self, column: str, tree: Tree) -> str:
        text, what = _spelled(tree)
        self._need(column, what)
        return text


def _spelled(tree: Tree) -> tuple[str, str]:
    """A constant in SQL, and what it is.

    Raises:
        _No: if it is none that is known to mean the same everywhere.
    """
    if tree.get("class") == "CAST":
        target = str(tree.get("cast_type", {}).get("id"))
        inner, what = _spelled(tree["child"])
        if target not in _CASTS or tree["child"].get("class") != "CONSTANT":
            raise _No
        if not what.endswith("text") and _CASTS[target] not in ("integer", "double", "text"):
            raise _No
        return f"CAST({inner} AS {target})", _CASTS[target]
    value = tree.get("value") if tree.get("class") == "CONSTANT" else None
    if not isinstance(value, dict) or value.get("is_null", True):
        raise _No
    return _literal(str(value["type"].get("id")), value["type"].get("type_info") or {}, value.get("value"))


def _text_kind(value: str) -> str:
    """A text that spells a date or a timestamp may be compared with those: DuckDB then reads it as one."""
    match = _MOMENT.fullmatch(value)
    try:
        if match:
            datetime.fromisoformat(match[0])
            return "timestamp text" if match[1] else "date text"
    except ValueError:
        pass
    return "text"


def _literal(kind: str, info: dict[str, Any], value: Any) -> tuple[str, str]:
    if kind == "VARCHAR" and isinstance(value, str) and _SENTINEL not in value:
        return quote_literal(value), _text_kind(value)
    if kind in _INTEGERS and isinstance(value, int):
        return str(value), "integer"
    if kind == "DOUBLE" and isinstance(value, float):
        return f"{value:.17e}", "double"
    if kind == "DECIMAL" and isinstance(value, int) and info.get("width", 99) <= _MOST_DIGITS:
        scale = int(info.get("scale", 0))
        digits = str(abs(value)).rjust(scale + 1, "0")
        point = len(digits) - scale
        return f"{'-' if value < 0 else ''}{digits[:point]}.{digits[point:]}", f"DECIMAL({info['width']},{scale})"
    raise _No

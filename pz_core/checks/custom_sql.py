"""The check ``custom_sql``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from pz_core.checks.body import BodyReader, mapping_schema
from pz_core.contract.check import CheckDefinition, CheckQuery
from pz_core.values import Value

_NAME = re.compile(r"[a-z][a-z0-9_]*")
#: What may hold a semicolon that ends no statement, and the semicolons that do. Nested comments are walked by hand.
_TOKEN = re.compile(
    r"""
      (?P<escaped>(?<![A-Za-z0-9_$])[eE]'(?:[^'\\]|\\.|'')*(?:'|$))
    | (?P<text>'(?:[^']|'')*(?:'|$))
    | (?P<name>"(?:[^"]|"")*(?:"|$))
    | (?P<dollar>(?<![A-Za-z0-9_$])\$(?P<tag>(?:[A-Za-z_][A-Za-z0-9_]*)?)\$.*?(?:\$(?P=tag)\$|$(?![\s\S])))
    | (?P<line>--[^\n]*)
    | (?P<open>/\*)
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


class CustomSql:
    """Counts the rows that a query of the project's own returns. It runs as written, on the staging database."""

    name: ClassVar[str] = "custom_sql"
    body_schema: ClassVar[Mapping[str, Any]] = mapping_schema(
        ["name", "sql"],
        name={"type": "string", "pattern": "^[a-z][a-z0-9_]*$"},
        sql={"type": "string", "pattern": r"\S"},
    )

    def define(self, body: Value) -> CheckDefinition:
        """Read ``{name, sql}``.

        Raises:
            CheckFault: if the name is no lower-case word, the SQL is empty or holds several statements, or there is
                anything else.
        """
        reader = BodyReader(body, ("name", "sql"), columns=False, needs="a mapping with 'name' and 'sql'")
        name, sql = reader.get("name"), reader.get("sql")
        if name is None:
            reader.fault("needs option 'name'")
        elif not isinstance(name, str) or not _NAME.fullmatch(name):
            reader.fault(f"option 'name' must be a lower-case word ([a-z][a-z0-9_]*), got {name!r}")
        found = statements(sql) if isinstance(sql, str) else []
        if sql is None:
            reader.fault("needs option 'sql'")
        elif not isinstance(sql, str):
            reader.fault("option 'sql' must be a text")
        elif not found:
            reader.fault("option 'sql' is empty")
        elif len(found) > 1:
            reader.fault(f"option 'sql' holds {len(found)} statements; a check is one query")
        elif not balanced(found[0]):
            reader.fault("option 'sql' has a parenthesis that is not opened or not closed")
        reader.done()
        return CheckDefinition(self.name, options={"sql": found[0]}, name=str(name))

    def query(self, definition: CheckDefinition, relation: str, now: datetime) -> CheckQuery:
        """The rows of the query; line breaks around it keep a comment at its end from swallowing what follows."""
        source = f"FROM (\n{definition.options['sql']}\n) AS violations"
        return CheckQuery(f"SELECT count(*) {source}", f"SELECT * {source} LIMIT 5")


def statements(sql: str) -> list[str]:
    """The statements of a text, without the semicolons that end them; those of only comments and space are left out."""
    found: list[str] = []
    start = at = 0
    speaks = False
    while match := _TOKEN.search(sql, at):
        speaks = speaks or bool(sql[at : match.start()].strip())
        at = match.end()
        if match["end"]:
            if speaks:
                found.append(sql[start : match.start()].strip())
            start, speaks = at, False
        elif match["open"]:
            at = _comment_end(sql, at)
        elif not match["line"]:
            speaks = True
    if speaks or sql[at:].strip():
        found.append(sql[start:].strip())
    return found


def balanced(sql: str) -> bool:
    """Whether every parenthesis of a statement closes one that it opened: it stands in parentheses of ours."""
    depth = at = 0
    while True:
        match = _TOKEN.search(sql, at)
        for mark in sql[at : match.start() if match else len(sql)]:
            depth += (mark == "(") - (mark == ")")
            if depth < 0:
                return False
        if match is None:
            return depth == 0
        at = _comment_end(sql, match.end()) if match["open"] else match.end()


def _comment_end(sql: str, at: int) -> int:
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(sql, at)):
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return at if depth == 0 else len(sql)

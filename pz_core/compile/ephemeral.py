"""Ephemeral pipelines: no node of their own, a common table expression in each consumer."""

from __future__ import annotations

from collections.abc import Mapping

from pz_core.compile.sqltext import ends_in_line_comment, with_clause

#: What ``ref()`` of an ephemeral pipeline renders, followed by its name.
CTE_PREFIX = "__pz_cte__"


def inline(sql: str, bodies: Mapping[str, str]) -> str:
    """A consumer's query with the bodies of the ephemerals it refers to in front, sorted by name.

    A WITH of the consumer's own is joined, not nested, so a RECURSIVE one goes on to work.

    Args:
        sql: the consumer's normalised query.
        bodies: name of an ephemeral pipeline -> its normalised query.
    """
    if not bodies:
        return sql
    made = ", ".join(f"{CTE_PREFIX}{name} as ({_closed(bodies[name])})" for name in sorted(bodies))
    at = with_clause(sql)
    if at is None:
        return f"with {made}\n{sql}"
    rest = sql[at:]
    return f"{sql[:at]} {made},{'' if rest[:1].isspace() else ' '}{rest}"


def _closed(body: str) -> str:
    # A closing parenthesis behind a line comment would be part of the comment.
    return f"{body}\n" if ends_in_line_comment(body) else body

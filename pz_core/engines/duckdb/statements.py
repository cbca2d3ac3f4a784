"""Exactly one SELECT: what a pipeline or a check may be."""

from __future__ import annotations

import duckdb

from pz_core.engines.duckdb.errors import pipeline_error
from pz_core.engines.duckdb.session import Work
from pz_core.errors import PzError, Where


def one_select(work: Work, sql: str, node: str, what: str, hint: str) -> None:
    """Refuse SQL that is not exactly one query, before any of it runs.

    Args:
        work: of the task.
        sql: the text.
        node: name of the node.
        what: how to call it: ``the pipeline``.
        hint: for a text that cannot be parsed.

    Raises:
        PzError: PZ0501.
    """
    try:
        found = work.cursor.extract_statements(sql)
    except duckdb.Error as error:
        raise pipeline_error(error, node, hint) from error
    # A PIVOT over values yet to be found is several statements to the parser, which then keep no text of their own.
    queries = [s for s in found if s.type == duckdb.StatementType.SELECT]
    if len(queries) == 1 and all(s is queries[0] or not s.query for s in found):
        return
    if len(found) == 1 or not found:
        told = f"{what} is no query" if found else f"{what} is empty"
    else:
        told = f"{what} holds {len(found)} statements, and exactly one query can run"
    raise PzError("PZ0501", told, where=Where(node=node), hint="write one SELECT; put the rest into other pipelines")

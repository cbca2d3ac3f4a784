"""Check: how many rows break a rule, and what may be shown of them.

Sources: engine.md 7 (counts, samples, what is a failed check and what is a failed node).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

import duckdb

from pz_core.contract.check import Check
from pz_core.contract.engine import CheckOutcome, CheckTask, Host
from pz_core.engines.duckdb.errors import pipeline_error
from pz_core.engines.duckdb.session import Work, staged
from pz_core.engines.duckdb.statements import one_select

_HINT = "correct the check in the pipeline's file under pipelines/configs"

_Row = tuple[tuple[str, str | None], ...]


def check(host: Host, task: CheckTask, work: Work) -> CheckOutcome:
    """Ask a check's questions. Violations are an answer, not a fault.

    Raises:
        PzError: PZ0501 if a question cannot be asked.
        Cancelled: if told to stop.
    """
    rule = cast(Check, host.check(task.check.kind))
    query = rule.query(task.check, staged(task.relation), datetime.now(UTC))
    node = task.node.name
    for sql in (query.count, query.detail, query.sample):
        if sql is not None:
            one_select(work, sql, node, "the check's query", _HINT)
    try:
        violations = work.count(query.count)
        detail = _rows(work, query.detail, 1) if query.detail is not None else ()
        wanted = query.sample is not None and violations > 0 and task.samples and query.sample_limit > 0
        sample = _rows(work, str(query.sample), query.sample_limit) if wanted else ()
    except duckdb.Error as error:
        work.recognise(error)
        raise pipeline_error(error, node, _HINT) from error
    return CheckOutcome(violations, query.unit, sample, detail[0] if detail else ())


def _rows(work: Work, sql: str, limit: int) -> tuple[_Row, ...]:
    """Rows as text, which DuckDB makes of any type without asking a locale: dates are ISO, instants UTC."""
    # The columns are named by position inside, since two of a query may share a name.
    names = [d[0] for d in work.run(f"SELECT * FROM (\n{sql}\n) LIMIT 0").description or ()]
    inner = ", ".join(f"c{i}" for i in range(len(names)))
    shown = ", ".join(f"CAST(c{i} AS VARCHAR)" for i in range(len(names)))
    found = work.run(f"SELECT {shown} FROM (SELECT * FROM (\n{sql}\n) LIMIT {limit}) AS shown({inner})").fetchall()
    return tuple(tuple(zip(names, row, strict=True)) for row in found)

"""What a landing decided that no plan could know: the same topics as the plan's rules, without a value of the data."""

from __future__ import annotations

from collections.abc import Mapping

from pz_core.contract.connector import ReadHints
from pz_core.contract.engine import LandResult, LandTask

#: So many columns are told; the rest is counted.
_MOST_COLUMNS = 200


def choices(planned: ReadHints, task: LandTask, result: LandResult) -> Mapping[str, str]:
    """The choices of one landing by topic; ``access`` is there already where a scan told it.

    Args:
        planned: hints as the plan had them.
        task: with the hints that were used.
        result: of the landing.
    """
    made = dict(result.choices)
    if task.tier == "native" and result.tier == "universal":
        made["access"] = "record batches: DuckDB cannot read by itself what is there"
    if task.read.columns is None:
        told = [f"{column.name} {column.type}" for column in result.columns[:_MOST_COLUMNS]]
        rest = len(result.columns) - len(told)
        made["types"] = ", ".join([*told, f"and {rest} more"] if rest else told)
        if result.cursor is not None:
            made["cursor"] = result.cursor.type
    if planned.columns is not None or planned.predicate is not None:
        used = task.read.hints
        read = "all columns" if used.columns is None else f"{len(used.columns)} columns"
        made["pushdown"] = f"{read}, {'no filter' if used.predicate is None else 'filter'}"
    return made

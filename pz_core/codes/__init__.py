"""The one table of codes: title, cause and remedy of each. `pz explain` and the reference page are made from it.

A code is never reused for another meaning. Rows are kept in order, a module a block of numbers:
01 loading, 02 what pipelines say, 03 connectors and packages, 04 to 06 running and the command line,
07 to 09 plugins, scd strategies, values and engines.
"""

from __future__ import annotations

from pz_core.codes import connectors, loading, pipelines, plugins, running
from pz_core.codes.row import Code

CODES: dict[str, Code] = {}

#: Codes that once had a meaning, here or in the tool that this one follows. They stay unused for ever, so that an old
#: log or an old page never explains a new fault.
RETIRED: frozenset[str] = frozenset(
    {"PZ0203", "PZ0207", "PZ0226", "PZ0228", "PZ0232", "PZ0343", "PZ0347", "PZ0359", "PZ0523"}
)


def _add(*rows: Code) -> None:
    for row in rows:
        if row.code in CODES or row.code in RETIRED:
            raise ValueError(f"{row.code} stands twice in the table, or is retired")
        CODES[row.code] = row


_add(*loading.ROWS, *pipelines.ROWS, *connectors.ROWS, *running.ROWS, *plugins.ROWS)

__all__ = ["CODES", "RETIRED", "Code"]

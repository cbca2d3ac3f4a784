"""The one table of codes: title, cause and remedy of each. `pz explain` and the reference page are made from it.

A code is never reused for another meaning. Rows are kept in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Code:
    """A row of the table.

    Args:
        code: ``PZ0206``.
        title: what happened, in a few words.
        cause: when it is raised.
        remedy: the way out.
        severity: ``error``, ``warning``, ``note``, or ``error/warning`` where it is both.
        phase: ``load``, ``compile``, ``select``, ``validate``, ``plan``, ``run``, ``packages``, ``cli``.
    """

    code: str
    title: str
    cause: str
    remedy: str
    severity: Literal["error", "warning", "note", "error/warning"] = "error"
    phase: str = "load"


CODES: dict[str, Code] = {}


def _add(*rows: Code) -> None:
    for row in rows:
        if row.code in CODES:
            raise ValueError(f"{row.code} stands twice in the table")
        CODES[row.code] = row

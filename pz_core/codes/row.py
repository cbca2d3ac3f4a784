"""What a row of the table of codes holds."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Code(Struct, frozen=True):
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

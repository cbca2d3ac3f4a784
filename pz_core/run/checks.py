"""What a failed check says: how many violations, and the rows that may be shown."""

from __future__ import annotations

from pz_core.contract.engine import CheckOutcome, CheckTask
from pz_core.errors import PzError

Row = tuple[tuple[str, str | None], ...]


class CheckFailed(PzError):
    """PZ0510, with the number of violations."""

    def __init__(self, message: str, violations: int, hint: str) -> None:
        super().__init__("PZ0510", message, hint=hint)
        self.violations = violations

    def _state(self) -> dict[str, object]:
        return {**super()._state(), "violations": self.violations}


def refuse_violations(task: CheckTask, outcome: CheckOutcome) -> None:
    """Let a check without violations pass.

    Raises:
        CheckFailed: PZ0510 naming check, relation and count, with the rows that may be shown.
    """
    if outcome.violations == 0:
        return
    unit = outcome.unit if outcome.violations != 1 else outcome.unit.removesuffix("s")
    shown = f"{task.check.kind} on staging.{task.relation}: {outcome.violations} violating {unit}"
    if outcome.detail:
        shown += f", found {rendered((outcome.detail,))}"
    if outcome.sample:
        shown += f", such as {rendered(outcome.sample)}"
    hint = f"look at staging.{task.relation} in this run's staging.duckdb, and correct the data or the check"
    raise CheckFailed(shown, outcome.violations, hint)


def rendered(rows: tuple[Row, ...]) -> str:
    """Rows as ``{id=1, email=null}; {id=2, email=null}``."""
    return "; ".join("{" + ", ".join(f"{name}={_text(value)}" for name, value in row) + "}" for row in rows)


def _text(value: str | None) -> str:
    return "null" if value is None else value

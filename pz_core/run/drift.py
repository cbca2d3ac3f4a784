"""Columns of datasets without a contract, compared with those accepted earlier (``on_source_drift``).

Sources: config-compile.md section 6, engine.md 3.7.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from pz_core.contract.connector import ReadHints
from pz_core.contract.state import StateBackend, StateEntry
from pz_core.errors import Notice, PzError, Where
from pz_core.values import Column, canonical_json

#: The section of the store that accepted columns are in.
SCHEMAS = "schemas"
_SHOWN = 10


class Change(Struct, frozen=True):
    """A column that was ``added``, ``removed`` or ``retyped``; ``before`` and ``after`` are DuckDB types."""

    kind: str
    column: str
    before: str | None
    after: str | None

    def as_dict(self) -> dict[str, str | None]:
        """As the event has it."""
        return {"kind": self.kind, "column": self.column, "from": self.before, "to": self.after}

    def __str__(self) -> str:
        if self.kind == "retyped":
            return f"{self.column} retyped from {self.before} to {self.after}"
        return f"{self.column} {self.kind} ({self.after or self.before})"


class Observed(Struct, frozen=True):
    """The columns of a dataset as they landed, with the shape of the read that they belong to."""

    dataset: str
    columns: tuple[Column, ...]
    hints_hash: str

    def listed(self) -> list[dict[str, str]]:
        """Names and types."""
        return [{"name": column.name, "type": column.type} for column in self.columns]

    def payload(self) -> dict[str, Any]:
        """As the store has it."""
        return {"columns": self.listed(), "hintsHash": self.hints_hash}

    def as_dict(self) -> dict[str, Any]:
        """As ``run_results.json`` has it."""
        return {"dataset": self.dataset, **self.payload()}


class DriftRefused(PzError):
    """PZ0331 of a load, with what it saw, so that it can be accepted."""

    def __init__(self, message: str, hint: str, observed: Observed) -> None:
        super().__init__("PZ0331", message, hint=hint)
        self.observed = observed

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "observed": self.observed}


def observe(dataset: str, hints: ReadHints, columns: Sequence[Column]) -> Observed:
    """What landed. A read that leaves columns out is of another shape than one that does not."""
    shape = canonical_json(
        {"columns": None if hints.columns is None else sorted(hints.columns), "predicate": hints.predicate}
    )
    return Observed(dataset, tuple(columns), hashlib.sha256(shape.encode()).hexdigest()[:16])


def changes(before: Mapping[str, Any], observed: Observed) -> tuple[Change, ...]:
    """What is different from an accepted payload: added ones first, then those that went or changed.

    Names and types are compared as they are written; their order means nothing.
    """
    old = {str(item.get("name")): str(item.get("type")) for item in _listed(before)}
    new = {column.name: column.type for column in observed.columns}
    made = [Change("added", name, None, kind) for name, kind in new.items() if name not in old]
    for name, kind in old.items():
        if name not in new:
            made.append(Change("removed", name, kind, None))
        elif new[name] != kind:
            made.append(Change("retyped", name, kind, new[name]))
    return tuple(made)


def _listed(payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = payload.get("columns")
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


class DriftGate:
    """Compares what lands in one run with what was accepted before it; safe to use from several threads.

    Args:
        backend: the open store.
        policy: ``warn`` or ``fail``.

    Raises:
        PzError: if the store cannot be read.
    """

    def __init__(self, backend: StateBackend, policy: str) -> None:
        self.policy = policy
        self.notices: list[Notice] = []
        self._backend = backend
        self._accepted: Mapping[str, StateEntry] = backend.entries(SCHEMAS)
        self._lock = threading.Lock()

    def compare(self, observed: Observed) -> tuple[Change, ...]:
        """What has changed. The first sight of a dataset, or of a read of another shape, is accepted silently.

        A store that does not take it is told in :attr:`notices`; the rows are as good without.
        """
        entry = self._accepted.get(observed.dataset)
        if entry is not None and _listed(entry.payload) and entry.payload.get("hintsHash") == observed.hints_hash:
            return changes(entry.payload, observed)
        with self._lock:
            try:
                self._backend.write(
                    SCHEMAS, observed.dataset, observed.payload(), None if entry is None else entry.version
                )
            except PzError as error:
                if error.code != "PZ0520":  # somebody else's first sight is as good as this one
                    what = f"{observed.dataset}: its columns could not be remembered: {error.message}"
                    self.notices.append(Notice("warning", what, error.code, hint=error.hint))
        return ()

    def judge(self, observed: Observed, found: Sequence[Change], node: str) -> Notice:
        """The warning about changes.

        Raises:
            DriftRefused: under ``fail``.
        """
        listed = ", ".join(str(change) for change in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        message = f"{observed.dataset}: its columns have changed: {listed}{more}"
        hint = f"pz schema accept {observed.dataset} takes them as they are now; columns: would fix them for good"
        if self.policy == "fail":
            raise DriftRefused(message, hint, observed)
        return Notice("warning", message, "PZ0331", Where(node=node), hint)

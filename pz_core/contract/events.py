"""Events of a run: frozen records. Fields are only ever added."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_CAMEL = re.compile(r"_([a-z])")


def camel(name: str) -> str:
    """``node_id`` becomes ``nodeId``: the spelling of the JSON contracts."""
    return _CAMEL.sub(lambda m: m[1].upper(), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events carry: the instant (UTC, milliseconds, ``Z``) and the run's id."""

    at: str
    run_id: str

    @property
    def event(self) -> str:
        """Name in the stream: the class's own in snake case."""
        return re.sub(r"(?<!^)([A-Z])", r"_\1", type(self).__name__).lower()

    def as_dict(self) -> dict[str, Any]:
        """The event as JSON-ready data; optional fields that are absent are left out."""
        made: dict[str, Any] = {"event": self.event, "at": self.at, "runId": self.run_id}
        for item in dataclasses.fields(self):
            if item.name in ("at", "run_id"):
                continue
            value = getattr(self, item.name)
            if value is None and item.metadata.get("optional"):
                continue
            made[camel(item.name)] = list(value) if isinstance(value, tuple) else value
        return made


def _optional() -> Any:
    return field(default=None, metadata={"optional": True})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """The first event of a run. ``node_count`` is the number of nodes that will end in a result."""

    project_name: str
    node_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted(Event):
    """A node began its first attempt."""

    node_id: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProgress(Event):
    """Rows, bytes (approximate) and batches moved so far by a node."""

    node_id: str
    name: str
    rows: int
    bytes: int
    batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(Event):
    """Attempt ``attempt`` failed transiently; the next begins in ``delay_ms``."""

    node_id: str
    name: str
    attempt: int
    max_attempts: int
    delay_ms: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeKeyDuplicatesDetected(Event):
    """A batch held several rows of one merge key (PZ0522)."""

    node_id: str
    output: str
    keys: tuple[str, ...]
    duplicate_groups: int
    extra_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWarning(Event):
    """A coded warning about a node; never a value."""

    node_id: str
    name: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDriftDetected(Event):
    """The columns of a dataset without a contract differ from the accepted ones."""

    node_id: str
    connection: str
    entity: str
    policy: str
    changes: tuple[Mapping[str, Any], ...]
    observed: tuple[Mapping[str, Any], ...]
    hints_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCompleted(Event):
    """A node ended: ``success``, ``failed`` or ``skipped``; exactly one a node.

    ``rows`` counts what the node produced (violations for a check). ``accounting`` says read, staged, written,
    rejected.
    """

    node_id: str
    kind: str
    name: str
    status: str
    rows: int
    duration_ms: int
    error_code: str | None = None
    error_message: str | None = None
    timings: Mapping[str, int] | None = _optional()
    provenance: str | None = _optional()
    partitions: Mapping[str, int] | None = _optional()
    delivery: Mapping[str, Any] | None = _optional()
    cdc: Mapping[str, Any] | None = _optional()
    caught_up: bool | None = _optional()
    accounting: Mapping[str, int] | None = _optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerStateChanged(Event):
    """The circuit breaker of a connection changed its state."""

    instance: str
    old_state: str
    new_state: str
    trigger: str
    cool_down_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorLog(Event):
    """A line that a connector wished to say."""

    level: str
    connection: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCompleted(Event):
    """All nodes have ended. ``status`` is ``success``, ``completed_with_failures`` or ``fatal``."""

    status: str
    succeeded: int
    failed: int
    skipped: int
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSwept(Event):
    """Old staging files were removed; the only event after ``run_completed``."""

    runs_swept: int
    bytes_freed: int
    failures: int

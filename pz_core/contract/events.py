"""Events of a run: frozen records. Fields are only ever added."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct

_CAMEL = re.compile(r"_([a-z])")


def camel(name: str) -> str:
    """``node_id`` becomes ``nodeId``: the spelling of the JSON contracts."""
    return _CAMEL.sub(lambda m: m[1].upper(), name)


class Event(Struct, frozen=True, kw_only=True):
    """What all events carry: the instant (UTC, milliseconds, ``Z``) and the run's id.

    Fields named in ``optional`` are left out of the JSON where they are absent.
    """

    optional: ClassVar[frozenset[str]] = frozenset()

    at: str
    run_id: str

    @classmethod
    def called(cls) -> str:
        """Name in the stream: the class's own in snake case."""
        return re.sub(r"(?<!^)([A-Z])", r"_\1", cls.__name__).lower()

    @property
    def event(self) -> str:
        """Name in the stream."""
        return self.called()

    def as_dict(self) -> dict[str, Any]:
        """The event as JSON-ready data; optional fields that are absent are left out."""
        made: dict[str, Any] = {"event": self.event, "at": self.at, "runId": self.run_id}
        for name in self.__struct_fields__:
            if name in ("at", "run_id"):
                continue
            value = getattr(self, name)
            if value is None and name in self.optional:
                continue
            made[camel(name)] = list(value) if isinstance(value, tuple) else value
        return made


class RunStarted(Event, frozen=True, kw_only=True):
    """The first event of a run. ``node_count`` is the number of nodes that will end in a result."""

    project_name: str
    node_count: int


class NodeStarted(Event, frozen=True, kw_only=True):
    """A node began its first attempt."""

    node_id: str
    kind: str
    name: str


class NodeProgress(Event, frozen=True, kw_only=True):
    """Rows, bytes (approximate) and batches moved so far by a node."""

    node_id: str
    name: str
    rows: int
    bytes: int
    batches: int


class RetryScheduled(Event, frozen=True, kw_only=True):
    """Attempt ``attempt`` failed transiently; the next begins in ``delay_ms``."""

    node_id: str
    name: str
    attempt: int
    max_attempts: int
    delay_ms: int
    reason: str


class MergeKeyDuplicatesDetected(Event, frozen=True, kw_only=True):
    """A batch held several rows of one merge key (PZ0522)."""

    node_id: str
    output: str
    keys: tuple[str, ...]
    duplicate_groups: int
    extra_rows: int


class NodeWarning(Event, frozen=True, kw_only=True):
    """A coded warning about a node; never a value."""

    node_id: str
    name: str
    code: str
    message: str


class SourceDriftDetected(Event, frozen=True, kw_only=True):
    """The columns of a dataset without a contract differ from the accepted ones."""

    node_id: str
    connection: str
    entity: str
    policy: str
    changes: tuple[Mapping[str, Any], ...]
    observed: tuple[Mapping[str, Any], ...]
    hints_hash: str


class NodeCompleted(Event, frozen=True, kw_only=True):
    """A node ended: ``success``, ``failed`` or ``skipped``; exactly one a node.

    ``rows`` counts what the node produced (violations for a check). ``accounting`` says read, staged, written,
    rejected.
    """

    optional: ClassVar[frozenset[str]] = frozenset(
        {"timings", "provenance", "partitions", "delivery", "cdc", "caught_up", "accounting"}
    )

    node_id: str
    kind: str
    name: str
    status: str
    rows: int
    duration_ms: int
    error_code: str | None = None
    error_message: str | None = None
    timings: Mapping[str, int] | None = None
    provenance: str | None = None
    partitions: Mapping[str, int] | None = None
    delivery: Mapping[str, Any] | None = None
    cdc: Mapping[str, Any] | None = None
    caught_up: bool | None = None
    accounting: Mapping[str, int] | None = None


class BreakerStateChanged(Event, frozen=True, kw_only=True):
    """The circuit breaker of a connection changed its state."""

    instance: str
    old_state: str
    new_state: str
    trigger: str
    cool_down_ms: int


class ConnectorLog(Event, frozen=True, kw_only=True):
    """A line that a connector wished to say."""

    level: str
    connection: str
    message: str


class RunCompleted(Event, frozen=True, kw_only=True):
    """All nodes have ended. ``status`` is ``success``, ``completed_with_failures`` or ``fatal``."""

    status: str
    succeeded: int
    failed: int
    skipped: int
    duration_ms: int


class RetentionSwept(Event, frozen=True, kw_only=True):
    """Old staging files were removed; the only event after ``run_completed``."""

    runs_swept: int
    bytes_freed: int
    failures: int

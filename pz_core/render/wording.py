"""What the plain lines and the live tree both say about an event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pz_core.contract.events import (
    BreakerStateChanged,
    ConnectorLog,
    Event,
    MergeKeyDuplicatesDetected,
    NodeCompleted,
    NodeWarning,
    RetryScheduled,
    SourceDriftDetected,
)
from pz_core.render.text import clean, plural

#: Status of a node -> the word that stands before it.
MARKS: dict[str, str] = {"success": "ok", "failed": "FAIL", "skipped": "skip"}
_PROVENANCE = {
    "reused": "(reused)",
    "carried_forward": "(carried forward)",
    "already_delivered": "(already delivered)",
}
_QUIET_LEVELS = frozenset({"trace", "debug", "info", "information"})
#: A side that waited for this share of a node's time is what the node waited for.
_BOUND_SHARE = 0.6


def amount(event: NodeCompleted) -> str:
    """``12 rows``, or ``view`` for a pipeline that has no rows of its own: they are counted where they are read."""
    if event.kind == "Pipeline" and event.status == "success" and event.accounting == {}:
        return "view"
    return f"{event.rows} rows"


def provenance(event: NodeCompleted) -> str:
    """How a result came about, if not by running the node."""
    return _PROVENANCE.get(event.provenance or "", clean(event.provenance or ""))


def bottleneck(event: NodeCompleted) -> str | None:
    """Which side of an edge the other one waited for, if it waited for most of the time."""
    timings = event.timings or {}
    sides = {
        "SourceLoad": (
            ("producerStallMs", "ingest-bound", "the source"),
            ("consumerStallMs", "source-bound", "staging"),
        ),
        "SinkWrite": (("producerStallMs", "sink-bound", "staging"), ("consumerStallMs", "staging-bound", "the sink")),
    }.get(event.kind, ())
    for key, word, idle in sides:
        stalled = timings.get(key, timings.get(_snake(key), 0))
        if event.duration_ms > 0 and stalled >= _BOUND_SHARE * event.duration_ms:
            share = min(100, round(100 * stalled / event.duration_ms))
            return f"{word}: {idle} waited {share}% of the time"
    return None


def _snake(key: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in key)


def delivery(event: NodeCompleted) -> str | None:
    """What a sink that cannot take everything back has left behind, or has skipped because it was there."""
    facts: Mapping[str, Any] = event.delivery or {}
    semantics = facts.get("abort_semantics", facts.get("abortSemantics"))
    visible = facts.get("rows_visible", facts.get("rowsVisible"))
    resumed = facts.get("resumed_rows", facts.get("resumedRows"))
    if event.status == "failed" and semantics:
        upto = f"up to {plural(int(visible), 'row')}" if visible is not None else "some rows"
        return f"delivery stopped: {upto} may be visible already (abort: {semantics})"
    if event.status == "success" and resumed:
        return f"resumed: {plural(int(resumed), 'row')} had been delivered before"
    return None


def warning(event: Event) -> str | None:
    """``PZ0522: what is odd``, for where the node's name stands already; ``None`` for an event that does not warn."""
    if isinstance(event, NodeWarning):
        code, message = event.code, event.message
    elif isinstance(event, MergeKeyDuplicatesDetected):
        groups, keys = plural(event.duplicate_groups, "key"), ", ".join(event.keys)
        code, dropped = "PZ0522", plural(event.extra_rows, "row")
        message = f"{groups} of ({keys}) stood more than once in the batch: {dropped} dropped, the last of each kept"
    elif isinstance(event, SourceDriftDetected):
        code, message = "PZ0331", f"the source's columns have changed: {', '.join(map(_change, event.changes))}"
    else:
        return None
    return clean(f"{code}: {' '.join(message.split())}")


def _change(item: Mapping[str, Any]) -> str:
    kind, column = str(item.get("kind", "changed")), item.get("column")
    retyped = f" ({item.get('from')}->{item.get('to')})" if kind == "retyped" else ""
    return f"{kind} {column}{retyped}"


def aside(event: Event) -> str | None:
    """The line of an event that tells of a retry, a breaker or a connector's own word, or ``None``."""
    if isinstance(event, RetryScheduled):
        line = f"retry: {event.name} attempt {event.attempt}/{event.max_attempts} "
        line += f"in {event.delay_ms}ms ({event.reason})"
    elif isinstance(event, BreakerStateChanged):
        wait = f"; cool down {event.cool_down_ms // 1_000}s" if event.cool_down_ms else ""
        line = f"breaker: connection {event.instance} {event.old_state}->{event.new_state} ({event.trigger}{wait})"
    elif isinstance(event, ConnectorLog) and event.level.lower() not in _QUIET_LEVELS:
        line = f"connector [{event.level}] {event.connection}: {event.message}"
    else:
        return None
    return clean(" ".join(line.splitlines()))

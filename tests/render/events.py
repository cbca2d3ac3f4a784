"""Events for tests, with what does not matter filled in."""

from __future__ import annotations

from typing import Any

from pz_core.contract import events

AT = "2026-01-01T00:00:00.000Z"
RUN = "20260101T000000000Z-0a0a"


def make(event: str, /, **fields: Any) -> events.Event:
    return getattr(events, event)(at=AT, run_id=RUN, **fields)


def started(name: str, kind: str = "SourceLoad") -> events.Event:
    return make("NodeStarted", node_id=f"id-{name}", kind=kind, name=name)


def completed(name: str, kind: str = "SourceLoad", status: str = "success", **fields: Any) -> events.Event:
    fields = {"rows": 0, "duration_ms": 10, **fields}
    return make("NodeCompleted", node_id=f"id-{name}", kind=kind, name=name, status=status, **fields)

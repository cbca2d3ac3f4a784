"""Observers of the event stream: plain lines, NDJSON, and a live tree; and how text reaches a terminal safely.

Observers are imported when they are asked for: ``pz --version`` needs only the streams.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pz_core.render.lines import Lines
    from pz_core.render.live import Live
    from pz_core.render.ndjson import Ndjson

_HOMES = {"Lines": "lines", "Live": "live", "Ndjson": "ndjson"}

__all__ = ["Lines", "Live", "Ndjson"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"pz_core.render.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

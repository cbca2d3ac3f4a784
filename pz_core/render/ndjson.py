"""The event stream as NDJSON: every line of stdout is one event."""

from __future__ import annotations

import json
import sys
from typing import ClassVar, TextIO

from pz_core.contract.events import Event
from pz_core.render.stream import write


class Ndjson:
    """Writes each event as one line of JSON and flushes it, so that a reader sees it at once.

    Args:
        stream: where to; stdout by default.
    """

    name: ClassVar[str] = "ndjson"

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stdout

    def on_event(self, event: Event) -> None:
        """Write one event."""
        write(self._stream, json.dumps(event.as_dict(), ensure_ascii=False, allow_nan=False, default=_plain) + "\n")

    def close(self) -> None:
        """Nothing is held back."""


def _plain(value: object) -> object:
    """Mappings and sequences of other kinds than JSON's own."""
    if hasattr(value, "keys"):
        return {key: value[key] for key in value.keys()}  # type: ignore[index]  # noqa: SIM118 - a Mapping, by its protocol
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")

"""Plain lines, one a finished node: for pipes, logs and CI."""

from __future__ import annotations

import sys
from typing import ClassVar, TextIO

from pz_core.contract.events import Event, NodeCompleted
from pz_core.render import wording
from pz_core.render.stream import write
from pz_core.render.text import clean, clean_lines


class Lines:
    """Writes plain lines without colour.

    Warnings are not among them: they go to stderr with the notices of the run, once.

    Args:
        stream: where to; stdout by default.
    """

    name: ClassVar[str] = "lines"

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stdout

    def on_event(self, event: Event) -> None:
        """Write what the event has to say, if anything."""
        if isinstance(event, NodeCompleted):
            write(self._stream, "\n".join(node_lines(event)) + "\n")
        elif (aside := wording.aside(event)) is not None:
            write(self._stream, aside + "\n")

    def close(self) -> None:
        """Nothing is held back."""


def node_lines(event: NodeCompleted) -> list[str]:
    """The lines of a finished node: the result, the whole of its error indented, and what follows from it."""
    mark = wording.MARKS.get(event.status, event.status)
    tail = wording.provenance(event)
    made = [clean(f"{mark} {event.name} {wording.amount(event)} {event.duration_ms}ms") + (f" {tail}" if tail else "")]
    if event.status == "failed":
        message = clean_lines(event.error_message or "")
        first = message[0] if message else "failed"
        made.append(f"  {event.error_code}: {first}" if event.error_code else f"  {first}")
        made.extend(f"  {line}" for line in message[1:])
    hint = wording.bottleneck(event)
    if hint:
        made.append(f"  hint: {hint}")
    left = wording.delivery(event)
    if left:
        made.append(f"  {left}")
    return made

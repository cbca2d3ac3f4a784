"""The contract of an observer of the event stream."""

from __future__ import annotations

from typing import ClassVar, Protocol

from pz_core.contract.events import Event


class Observer(Protocol):
    """Gets each event, in order, on a thread of its own. One that raises is reported once and dropped."""

    name: ClassVar[str]

    def on_event(self, event: Event) -> None:
        """Take one event."""

    def close(self) -> None:
        """The stream has ended."""

"""An observer that raises at every event."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract import Registration


@hookimpl
def pz_observers() -> list[Registration]:
    return [Registration("hostile_raising", "pz_hostile.registering.raising_observer:Raising", "raises", ">=1,<2")]


class Raising:
    """Raises."""

    name = "hostile_raising"

    def on_event(self, event: object) -> None:
        raise RuntimeError("no event for me")

    def close(self) -> None:
        raise RuntimeError("no end either")

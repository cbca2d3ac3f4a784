"""The strategies that the core ships, registered like anybody else's."""

from __future__ import annotations

from pz_core.contract.registration import Registration
from pz_core.plugins.markers import hookimpl


@hookimpl
def pz_strategies() -> list[Registration]:
    """The three strategies of the core."""
    made = (
        ("append", "Append", "adds the rows of the batch to what is there"),
        ("merge", "Merge", "updates rows by key and inserts new ones; removes none"),
        ("replace", "Replace", "exchanges the whole content for the batch"),
    )
    return [
        Registration(name, f"pz_core.strategies.{name}:{target}", summary, ">=1.0,<2") for name, target, summary in made
    ]
